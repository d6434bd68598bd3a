"""When the oldest of a changing set of requests was queued."""

import heapq

from hookline.request import Request


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
        """Time when it was queued, in ns; None if there is no request."""
        heap = self._heap
        while heap and heap[0][1] not in self._members:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
