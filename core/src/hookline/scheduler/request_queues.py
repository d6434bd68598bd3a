"""The requests of an engine: waiting, held by a gate, or running."""

from collections.abc import Iterable, Sequence

from hookline.config import Policy
from hookline.request import Request, RequestStatus
from hookline.scheduler.queue import WaitingQueue
from hookline.scheduler.readiness import HeldRequests, ReadinessGate
from hookline.scheduler.running_batch import RunningBatch


class RequestQueues:
    """Every live request is in exactly one of the three.

    Attributes:
        waiting: Requests that can be admitted.
        held: Requests that wait at a readiness gate.
        running: Requests in the batch.
    """

    def __init__(self, policy: Policy, gates: Sequence[ReadinessGate] = ()) -> None:
        self.waiting = WaitingQueue(policy)
        self.held = HeldRequests(gates)
        self.running = RunningBatch()
        self._oldest_waiting_at: int | None = None
        self._oldest_running_at: int | None = None

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
            self.waiting.remove(request.request_id)

    def next_waiting(self, now: int) -> Request | None:
        """Returns the first request that can be admitted, and leaves it queued.

        Requests before it whose gates are closed are held aside.
        """
        while self.waiting:
            request = self.waiting.peek()
            if (gate := self.held.closed_gate(request)) is None:
                return request
            self.waiting.pop()
            self.held.hold(request, gate, now)
        return None

    def find_oldest(self) -> None:
        """Looks at every request for the oldest; `oldest_…_at` return these."""
        self._oldest_waiting_at = _oldest((*self.waiting, *self.held))
        self._oldest_running_at = _oldest(self.running)

    @property
    def oldest_waiting_at(self) -> int | None:
        """Time when the oldest waiting or held request was queued, ns; None if none."""
        return self._oldest_waiting_at if self.waiting or self.held else None

    @property
    def oldest_running_at(self) -> int | None:
        """Time when the oldest running request was queued, ns; None if none."""
        return self._oldest_running_at if self.running else None


def _oldest(requests: Iterable[Request]) -> int | None:
    return min((request.queued_at for request in requests), default=None)
