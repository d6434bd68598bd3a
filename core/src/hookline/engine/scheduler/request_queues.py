"""The requests of an engine: waiting, held by a gate, or running."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from hookline.engine.scheduler.queue import (
    Order,
    RequestQueue,
    RequestTimes,
    TenantQueue,
    WaitingQueue,
)
from hookline.engine.scheduler.readiness import Readiness, ReadinessGate
from hookline.finish_cause import Failed
from hookline.frozen import EMPTY, frozen_map
from hookline.request import Request, RequestStatus
from hookline.stats.scheduler_stats import TenantStats

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig


@dataclass(frozen=True, slots=True)
class _Held:
    request: Request
    gate: ReadinessGate
    since: int


class HeldRequests:
    """Requests that stand aside, each at one gate, in the order of their wait's begin.

    Attributes:
        times: When they were queued.
        counts: Number of requests at each gate, none of them 0; replaced, not changed.
    """

    def __init__(self, gates: Sequence[ReadinessGate] = ()) -> None:
        """Starts empty; every request has to pass the gates, in this order."""
        self.times = RequestTimes()
        self._gates = gates
        # Gates that were written for an earlier release have no `param`.
        self._params = [getattr(gate, "param", None) for gate in gates]
        timeouts = [gate.timeout_ns for gate in gates if gate.timeout_ns is not None]
        self._shortest_timeout = min(timeouts, default=None)
        self._held: dict[int, _Held] = {}
        self._told: Callable[[int, int, str], None] | None = None
        self.counts: Mapping[str, int] = EMPTY

    def watch(self, told: Callable[[int, int, str], None]) -> None:
        """Calls `told(time, id, gate)` per request held; gate is empty on release."""
        self._told = told

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, request: Request) -> bool:
        held = self._held.get(request.request_id)
        return held is not None and held.request is request

    def closed_gate(self, request: Request) -> ReadinessGate | None:
        """Returns the first gate that the request has to wait at."""
        for gate, param in zip(self._gates, self._params, strict=True):
            if param is not None and getattr(request.params, param) is None:
                continue
            if not gate.is_open(request):
                return gate
        return None

    def hold(self, request: Request, gate: ReadinessGate, now: int) -> None:
        """Sets a request aside, which must be in no queue."""
        request.status = RequestStatus.HELD
        self._held[request.request_id] = _Held(request, gate, now)
        self._count(gate, 1)
        self.times.add(request, request.queued_at)
        if self._told is not None:
            self._told(now, request.request_id, gate.name)

    def let_go(self, request: Request, now: int) -> None:
        """Lets a request go whose wait is over; the caller queues it."""
        self._discard(request)
        if self._told is not None:
            self._told(now, request.request_id, "")

    def _discard(self, request: Request) -> None:
        held = self._held.pop(request.request_id)
        self._count(held.gate, -1)
        self.times.remove(request)
        is_new = request.num_cached_tokens is None
        request.status = RequestStatus.WAITING if is_new else RequestStatus.PREEMPTED

    def _count(self, gate: ReadinessGate, more: int) -> None:
        number = self.counts.get(gate.name, 0) + more
        others = {name: n for name, n in self.counts.items() if name != gate.name}
        self.counts = frozen_map({**others, gate.name: number} if number else others)

    def cancel(self, request: Request) -> None:
        """Lets a request go that ends while it waits."""
        gate = self._held[request.request_id].gate
        self._discard(request)
        gate.cancel(request)

    def close(self) -> None:
        """Closes the gates."""
        for gate in self._gates:
            gate.close()

    def take_ready(self, now: int) -> Iterable[Readiness]:
        """Returns requests whose wait has ended at a gate, or lasted too long."""
        for gate in self._gates:
            yield from gate.take_ready()
        if self._shortest_timeout is None:
            return
        for each in list(self._held.values()):
            waited, timeout = now - each.since, each.gate.timeout_ns
            if waited < self._shortest_timeout:
                return  # later ones have waited less
            if timeout is not None and waited >= timeout:
                error = (
                    f"waiting_for_{each.gate.name} for longer than {timeout / 1e9:g} s"
                )
                yield Readiness(each.request, Failed(error))


class RunningBatch:
    """Requests that hold blocks and are computed by steps.

    Attributes:
        requests: The requests, in order of admission; for reading.
        num_followers: Number of requests with `is_follower`.
        released: Ids of requests that have left and are still in the worker.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.num_followers = 0
        self.released: list[int] = []

    def add(self, request: Request) -> None:
        self.requests.append(request)
        self.num_followers += request.is_follower

    def remove(self, request: Request) -> None:
        """Removes a request; the next plan releases it in the worker."""
        self.requests.remove(request)
        self.num_followers -= request.is_follower
        self.released.append(request.request_id)

    def decodes_first(self) -> list[Request]:
        """Returns the requests: those with one token to compute before the others."""
        return sorted(self.requests, key=attrgetter("is_prefilling"))

    @property
    def oldest_queued_at(self) -> int | None:
        """Time when the request was queued that came first, ns; None if none runs."""
        return min(map(attrgetter("queued_at"), self.requests), default=None)


class RequestQueues:
    """Every live request is in exactly one of the three.

    Attributes:
        waiting: Requests that can be admitted.
        held: Requests that wait at a readiness gate.
        running: Requests in the batch.
        preempted: Ids of the waiting and held requests that were in the batch before.
        fair: The waiting queue, if it takes tenants in turn; otherwise None.
        tenants: Statistics of its tenants, as of the last audit.
    """

    def __init__(
        self,
        config: "SchedulerConfig",
        gates: Sequence[ReadinessGate] = (),
        fair: TenantQueue | None = None,
    ) -> None:
        self.fair = fair
        self.waiting: RequestQueue = (
            WaitingQueue(Order.of(config)) if fair is None else fair
        )
        self.held = HeldRequests(gates)
        self.running = RunningBatch()
        self.preempted: set[int] = set()
        # The last quarter of the places is for requests' first choices.
        self._most_followers = max(1, 3 * config.max_num_seqs // 4)
        self.tenants: Mapping[str, TenantStats] = {}

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
        while (
            request := self.waiting.peek(has_followers=has_followers)
        ) is not None and (gate := self.held.closed_gate(request)) is not None:
            self.waiting.pop(request)
            self.held.hold(request, gate, now)
        return request

    def audit(self) -> None:
        """Looks at every tenant."""
        if self.fair is not None:
            self.tenants = self.fair.stats()

    @property
    def oldest_waiting_at(self) -> int | None:
        """Time when the oldest waiting or held request was queued, ns; None if none."""
        waiting, held = self.waiting.times.earliest, self.held.times.earliest
        if waiting is None or held is None:
            return held if waiting is None else waiting
        return min(waiting, held)
