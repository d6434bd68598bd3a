"""The waiting queue: by arrival, or by priority and then arrival."""

import heapq
from collections.abc import Iterator, Sequence

from hookline.config import Policy
from hookline.request import Request


class WaitingQueue:
    """A heap of requests; one that comes back takes its old place again.

    Entries of removed requests are skipped later, so that every operation is O(log n).

    Attributes:
        num_tokens: Number of tokens that the requests have yet to compute: all they
            have, since a waiting request has no blocks.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._heap: list[tuple[int, int, Request]] = []
        self._members: dict[int, Request] = {}
        self.num_tokens = 0

    def __len__(self) -> int:
        return len(self._members)

    def __bool__(self) -> bool:
        return bool(self._members)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._members

    def __iter__(self) -> Iterator[Request]:
        return iter(self._members.values())

    def rank(self, request: Request) -> tuple[int, int]:
        """Sort key of requests: the smallest is served first and preempted last."""
        priority = request.priority if self._policy is Policy.PRIORITY else 0
        return priority, request.sequence

    def push(self, request: Request) -> None:
        self._members[request.request_id] = request
        self.num_tokens += request.num_tokens
        heapq.heappush(self._heap, (*self.rank(request), request))

    def peek(self) -> Request:
        """Returns the next request; the queue must not be empty."""
        while not self._is_member(first := self._heap[0][2]):
            heapq.heappop(self._heap)
        return first

    def pop(self) -> Request:
        request = self.peek()
        heapq.heappop(self._heap)
        self._leave(request.request_id)
        return request

    def lengthen(self, request: Request, token_ids: Sequence[int]) -> None:
        """Appends tokens that were in flight when the request was queued."""
        request.token_ids += token_ids
        self.num_tokens += len(token_ids)

    def remove(self, request_id: int) -> None:
        self._leave(request_id)
        if len(self._heap) > 2 * len(self._members) + 16:
            self._heap = [entry for entry in self._heap if self._is_member(entry[2])]
            heapq.heapify(self._heap)

    def _is_member(self, request: Request) -> bool:
        """Compares identity: a later request may have a removed one's id."""
        return self._members.get(request.request_id) is request

    def _leave(self, request_id: int) -> None:
        self.num_tokens -= self._members.pop(request_id).num_tokens
