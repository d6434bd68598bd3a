"""Deadlines of requests, in a heap: a step in which none has passed looks at one."""

import heapq

from hookline.clock import NANOSECONDS
from hookline.request import Request, RequestStatus


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
