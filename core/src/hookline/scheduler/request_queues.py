"""The requests of an engine: waiting, held by a gate, or running."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hookline.request import Request, RequestStatus
from hookline.scheduler.queue import Order, WaitingQueue
from hookline.scheduler.readiness import HeldRequests, ReadinessGate
from hookline.scheduler.request_times import OldestRequest
from hookline.stats.scheduler_stats import TenantStats

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig
    from hookline.scheduler.fair_queue import FairQueue


class RunningBatch:
    """Requests that hold blocks and are computed by steps, in order of admission.

    Attributes:
        num_followers: Number of requests with `is_follower`.
        oldest: The one that was queued first.
    """

    def __init__(self) -> None:
        self.num_followers = 0
        self.oldest = OldestRequest()
        self._requests: list[Request] = []
        self._released: list[int] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def add(self, request: Request) -> None:
        self._requests.append(request)
        self.oldest.add(request)
        self.num_followers += request.is_follower

    def remove(self, request: Request) -> None:
        """Removes a request; the next plan releases it in the worker."""
        self._requests.remove(request)
        self.oldest.remove(request)
        self.num_followers -= request.is_follower
        self._released.append(request.request_id)

    def decodes_first(self) -> list[Request]:
        """Returns the requests: those with one token to compute before the others."""
        return sorted(self._requests, key=_is_prefilling)

    def take_released(self) -> list[int]:
        """Returns ids of requests that have left since the last call."""
        released, self._released = self._released, []
        return released


class RequestQueues:
    """Every live request is in exactly one of the three.

    Attributes:
        waiting: Requests that can be admitted.
        held: Requests that wait at a readiness gate.
        running: Requests in the batch.
        preempted: Ids of the waiting and held requests that were in the batch before.
        fair: The waiting queue under the policy `fair`, which also keeps the tenants'
            accounts; otherwise None.
        tenants: Statistics of its tenants, as of the last audit.
    """

    def __init__(
        self,
        config: "SchedulerConfig",
        gates: Sequence[ReadinessGate] = (),
        fair: "FairQueue | None" = None,
    ) -> None:
        self.fair = fair
        self.waiting: WaitingQueue | FairQueue = (
            WaitingQueue(Order.of(config)) if fair is None else fair
        )
        self.held = HeldRequests(gates)
        self.running = RunningBatch()
        self.preempted: set[int] = set()
        # The last quarter of the places is for requests' first choices.
        self._most_followers = max(1, 3 * config.max_num_seqs // 4)
        self.tenants: dict[str, TenantStats] = {}

    def wait(self, request: Request, now: int) -> None:
        """Queues a request, or holds it aside at the first gate that is closed."""
        if (gate := self.held.closed_gate(request)) is None:
            self.waiting.push(request)
        else:
            self.held.hold(request, gate, now)

    def remove(self, request: Request) -> None:
        """Removes a request that ends."""
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
        elif request in self.held:
            self.held.cancel(request)
        else:
            self.waiting.remove(request)
        self.preempted.discard(request.request_id)

    def next_waiting(self, now: int) -> Request | None:
        """Returns the first request that can be admitted, and leaves it queued.

        Requests before it whose gates are closed are held aside.
        """
        has_followers = self.running.num_followers < self._most_followers
        while self.waiting:
            if (request := self.waiting.peek(has_followers=has_followers)) is None:
                return None
            if (gate := self.held.closed_gate(request)) is None:
                return request
            self.waiting.pop(request)
            self.held.hold(request, gate, now)
        return None

    def audit(self) -> None:
        """Looks at every tenant."""
        if self.fair is not None:
            self.tenants = self.fair.stats()

    @property
    def oldest_waiting_at(self) -> int | None:
        """Time when the oldest waiting or held request was queued, ns; None if none."""
        found = (self.waiting.oldest.queued_at, self.held.oldest.queued_at)
        return min((at for at in found if at is not None), default=None)

    @property
    def oldest_running_at(self) -> int | None:
        """Time when the oldest running request was queued, ns; None if none."""
        return self.running.oldest.queued_at


def _is_prefilling(request: Request) -> bool:
    return request.is_prefilling
