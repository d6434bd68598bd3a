"""When requests were queued, and when they have to end at the latest.

Both are heaps: a step looks at their first entries only.
"""

import heapq

from hookline.clock import NANOSECONDS
from hookline.request import Request, RequestStatus


class OldestRequest:
    """Knows at any moment which request has been queued for longest.

    Entries of removed requests are skipped later, so that every operation is O(log n).
    """

    def __init__(self) -> None:
        self._members: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def add(self, request: Request) -> None:
        """Adds a request, which may have been there before."""
        self._members[request.sequence] = request.queued_at
        heapq.heappush(self._heap, (request.queued_at, request.sequence))

    def remove(self, request: Request) -> None:
        del self._members[request.sequence]
        if len(self._heap) > 2 * len(self._members) + 16:
            self._heap = [(at, number) for number, at in self._members.items()]
            heapq.heapify(self._heap)

    @property
    def queued_at(self) -> int | None:
        """Time when the oldest request was queued, in ns; None without requests."""
        heap = self._heap
        while heap and heap[0][1] not in self._members:
            heapq.heappop(heap)
        return heap[0][0] if heap else None


class Deadlines:
    """When live requests end at the latest, wherever they are.

    Entries of requests that ended earlier are swept once they outnumber the others.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Request]] = []
        self._num_live = 0

    def __len__(self) -> int:
        return self._num_live

    def add(self, request: Request, now: int) -> None:
        """Notes the deadline of a request that arrives, if it has one."""
        if (seconds := request.inner.timeout_seconds) is not None:
            at = now + round(seconds * NANOSECONDS)
            heapq.heappush(self._heap, (at, request.sequence, request))
            self._num_live += 1

    def ended(self, request: Request) -> None:
        """Forgets a request, whose status is `FINISHED`."""
        if request.inner.timeout_seconds is None:
            return
        self._num_live -= 1
        if len(self._heap) > 2 * self._num_live + 16:
            self._heap = [entry for entry in self._heap if _is_live(entry[2])]
            heapq.heapify(self._heap)

    def passed(self, now: int) -> list[Request]:
        """Returns the requests whose deadlines have passed since the last call."""
        found: list[Request] = []
        while self._heap and self._heap[0][0] <= now:
            request = heapq.heappop(self._heap)[2]
            if _is_live(request):
                found.append(request)
        return found


def _is_live(request: Request) -> bool:
    return request.status is not RequestStatus.FINISHED
