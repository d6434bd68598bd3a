"""The waiting queue: by arrival, or by priority and then arrival.

The choices of one client's request queue one behind another: the next one joins the
queue when the one before it has left, behind everything that has arrived by then. So a
request with a thousand choices does not keep others waiting for all of them.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hookline.clock import NANOSECONDS
from hookline.request import Line, Request
from hookline.stats.scheduler_stats import TenantStats

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig

MOST_LEVELS = 100
"""With aging, priorities beyond it count as this one, so that every wait is bounded."""

_Heap = list[tuple[int, int, int, Request]]


class RequestTimes:
    """Knows at any moment which request has the earliest of their times, in ns.

    A heap, whose entries of removed requests are skipped later, so that every operation
    is O(log n).

    Attributes:
        members: Time and request, by the request's `sequence`; for reading.
    """

    def __init__(self) -> None:
        self.members: dict[int, tuple[int, Request]] = {}
        self._heap: list[tuple[int, int]] = []

    def add(self, request: Request, at: int) -> None:
        """Adds a request, which may have been there before, with the same time."""
        self.members[request.sequence] = at, request
        heapq.heappush(self._heap, (at, request.sequence))

    def remove(self, request: Request) -> None:
        del self.members[request.sequence]
        if len(self._heap) > 2 * len(self.members) + 16:
            self._heap = [(at, number) for number, (at, _) in self.members.items()]
            heapq.heapify(self._heap)

    @property
    def earliest(self) -> int | None:
        """The earliest time; None without requests."""
        heap = self._heap
        while heap and heap[0][1] not in self.members:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: int) -> Request | None:
        """Returns the earliest request, if its time has come."""
        if not self._heap or (at := self.earliest) is None or at > now:
            return None
        return self.members[self._heap[0][1]][1]


class RequestQueue(Protocol):
    """Requests that wait to be admitted, in some order.

    Attributes:
        requests: The requests by their ids; for reading.
        num_tokens: Number of tokens that the requests have yet to compute: all they
            have, since a waiting request has no blocks.
        times: When they were queued.
    """

    requests: dict[int, Request]
    num_tokens: int
    times: RequestTimes

    def rank(self, request: Request) -> tuple[float, ...]:
        """Sort key of requests that have been admitted: the largest is preempted."""

    def push(self, request: Request) -> None:
        """Queues a request; one that comes back takes its old place again."""

    def peek(self, *, has_followers: bool = True) -> Request | None:
        """Returns the next request; None if no such request waits.

        Args:
            has_followers: Whether it may be a choice behind the first of its request.
        """

    def pop(self, request: Request) -> None:
        """Removes a request that `peek` has returned."""

    def lengthen(self, request: Request, token_ids: Sequence[int]) -> None:
        """Appends tokens that were in flight when the request was queued."""

    def remove(self, request: Request) -> None:
        """Removes a request that ends."""


class TenantQueue(RequestQueue, Protocol):
    """A queue that takes tenants in turn, by what each has been served."""

    def arrived(self, request: Request) -> None:
        """Notes a new request, which need not wait in this queue."""

    def ended(self, request: Request) -> None:
        """Notes the end of a request, which must have left this queue."""

    def served_prompt(self, request: Request, num_tokens: int) -> None:
        """Charges the prompt tokens that a request has computed or will compute."""

    def served_output(self, request: Request, num_tokens: int) -> None:
        """Charges output tokens."""

    def stats(self) -> Mapping[str, TenantStats]:
        """Returns the tenants that have been known longest, idle ones included."""


@dataclass(frozen=True, slots=True)
class Order:
    """How requests are ranked.

    Attributes:
        is_by_priority: Whether priority comes before arrival.
        aging_ns: Wait that makes up for one level of priority; 0 if no wait does.
    """

    is_by_priority: bool = False
    aging_ns: int = 0

    @staticmethod
    def of(config: "SchedulerConfig") -> "Order":
        return Order(config.has_priorities, round(config.priority_aging * NANOSECONDS))

    def level(self, priority: int, since: int) -> int:
        """Returns the first part of the rank of a request that queues since a time.

        With aging, priority p counts as an arrival p times `aging_ns` later. The order
        of two requests therefore never changes while they wait.
        """
        if not self.is_by_priority:
            return 0
        if not self.aging_ns:
            return priority
        return since + max(-MOST_LEVELS, min(priority, MOST_LEVELS)) * self.aging_ns


class WaitingQueue:
    """A heap of requests, which implements `RequestQueue`.

    Entries of removed requests are skipped later, so that every operation is O(log n).
    Choices that have joined the queue behind the first of their request are in a heap
    of their own: `peek` can leave them out.
    """

    def __init__(self, order: Order | None = None) -> None:
        self._order = order or Order()
        self._leaders: _Heap = []
        self._followers: _Heap = []
        self._lines: dict[Line, deque[Request]] = {}
        self._heads: dict[Line, Request] = {}
        self._latest = (0, 0)
        self.requests: dict[int, Request] = {}
        self.num_tokens = 0
        self.times = RequestTimes()

    def rank(self, request: Request) -> tuple[float, ...]:
        assert request.rank is not None
        return request.rank

    def push(self, request: Request) -> None:
        self.requests[request.request_id] = request
        self.num_tokens += len(request.token_ids)
        self.times.add(request, request.queued_at)
        if request.rank is None:
            self._arrive(request)
        else:
            self._enter(request, request.rank)

    def peek(self, *, has_followers: bool = True) -> Request | None:
        leader, follower = self._top(self._leaders), None
        if has_followers and self._followers:
            follower = self._top(self._followers)
        if leader is None or follower is None:
            return leader or follower
        return min(leader, follower, key=self.rank)

    def pop(self, request: Request) -> None:
        heapq.heappop(self._followers if request.is_follower else self._leaders)
        self._leave(request)

    def lengthen(self, request: Request, token_ids: Sequence[int]) -> None:
        request.token_ids += token_ids
        self.num_tokens += len(token_ids)

    def remove(self, request: Request) -> None:
        self._leave(request)
        for heap in (self._leaders, self._followers):
            if len(heap) > 2 * len(self.requests) + 16:
                heap[:] = [entry for entry in heap if self._is_member(entry[3])]
                heapq.heapify(heap)

    # -- lines -------------------------------------------------------------------

    def _arrive(self, request: Request) -> None:
        """Ranks a request that comes first, or puts it in its line."""
        self._latest = max(self._latest, (request.sequence, request.queued_at))
        line = request.line
        if line in self._heads:
            request.is_follower = True
            self._lines.setdefault(line, deque()).append(request)
            return
        if line is not None:
            self._heads[line] = request
        self._rank(request, 2 * request.sequence, request.queued_at)

    def _rank(self, request: Request, place: int, since: int) -> None:
        level = self._order.level(request.facts.priority, since)
        request.rank = (level, place, request.sequence)
        self._enter(request, request.rank)

    def _enter(self, request: Request, rank: tuple[int, int, int]) -> None:
        heap = self._followers if request.is_follower else self._leaders
        heapq.heappush(heap, (*rank, request))

    def _leave(self, request: Request) -> None:
        del self.requests[request.request_id]
        self.num_tokens -= len(request.token_ids)
        self.times.remove(request)
        line = request.line
        if line is not None and self._heads.get(line) is request:
            del self._heads[line]
            if line in self._lines:
                self._advance(line)

    def _advance(self, line: Line) -> None:
        """Lets the next of a line join the queue, behind the latest arrival."""
        queued = self._lines[line]
        while queued:
            request = queued.popleft()
            if self._is_member(request):
                self._heads[line] = request
                sequence, at = self._latest
                self._rank(request, 2 * sequence + 1, at)
                break
        if not queued:
            del self._lines[line]

    # -- heaps -------------------------------------------------------------------

    def _top(self, heap: _Heap) -> Request | None:
        while heap:
            if self._is_member(request := heap[0][3]):
                return request
            heapq.heappop(heap)
        return None

    def _is_member(self, request: Request) -> bool:
        """Compares identity: a later request may have a removed one's id."""
        return self.requests.get(request.request_id) is request
