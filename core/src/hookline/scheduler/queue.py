"""The waiting queue: by arrival, or by priority and then arrival.

The choices of one client's request queue one behind another: the next one joins the
queue when the one before it has left, behind everything that has arrived by then. So a
request with a thousand choices does not keep others waiting for all of them.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookline.clock import NANOSECONDS
from hookline.request import Request
from hookline.scheduler.request_times import OldestRequest

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig

MOST_LEVELS = 100
"""With aging, priorities beyond it count as this one, so that every wait is bounded."""

_Group = tuple[str, str, int]
_Heap = list[tuple[int, int, int, Request]]


@dataclass(frozen=True, slots=True)
class Order:
    """How requests are ranked.

    Attributes:
        is_by_priority: Whether priority comes before arrival.
        aging_ns: Wait that makes up for one level of priority, ns; 0 means that no wait
            does.
    """

    is_by_priority: bool = False
    aging_ns: int = 0

    @staticmethod
    def of(config: "SchedulerConfig") -> "Order":
        return Order(
            config.has_priorities,
            round(config.priority_aging * NANOSECONDS),
        )

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
    """A heap of requests; one that comes back takes its old place again.

    Entries of removed requests are skipped later, so that every operation is O(log n).
    Choices that have joined the queue behind the first of their request are in a heap
    of their own: `peek` can leave them out.

    Attributes:
        num_tokens: Number of tokens that the requests have yet to compute: all they
            have, since a waiting request has no blocks.
        oldest: The request that was queued first, whatever its rank.
    """

    def __init__(self, order: Order | None = None) -> None:
        self._order = order or Order()
        self._leaders: _Heap = []
        self._followers: _Heap = []
        self._lines: dict[_Group, deque[Request]] = {}
        self._heads: dict[_Group, Request] = {}
        self._members: dict[int, Request] = {}
        self._latest = (0, 0)
        self.num_tokens = 0
        self.oldest = OldestRequest()

    def __len__(self) -> int:
        return len(self._members)

    def __bool__(self) -> bool:
        return bool(self._members)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._members

    def __iter__(self) -> Iterator[Request]:
        return iter(self._members.values())

    @property
    def has_leader(self) -> bool:
        """Whether `peek` returns a request also without followers."""
        return self._top(self._leaders) is not None

    def rank(self, request: Request) -> tuple[float, ...]:
        """Sort key of requests that have been admitted: the largest is preempted."""
        assert request.rank is not None
        return request.rank

    def push(self, request: Request) -> None:
        self._members[request.request_id] = request
        self.num_tokens += request.num_tokens
        self.oldest.add(request)
        if request.rank is None:
            self._arrive(request)
        else:
            self._enter(request)

    def peek(self, *, has_followers: bool = True) -> Request | None:
        """Returns the next request, or None if no request waits.

        Args:
            has_followers: Whether it may be a choice behind the first of its request.
        """
        leader = self._top(self._leaders)
        follower = self._top(self._followers) if has_followers else None
        if leader is None or follower is None:
            return leader or follower
        assert leader.rank is not None
        assert follower.rank is not None
        return min(leader, follower, key=self.rank)

    def pop(self, request: Request) -> None:
        """Removes a request that `peek` has returned."""
        heapq.heappop(self._heap_of(request))
        self._leave(request)

    def lengthen(self, request: Request, token_ids: Sequence[int]) -> None:
        """Appends tokens that were in flight when the request was queued."""
        request.token_ids += token_ids
        self.num_tokens += len(token_ids)

    def remove(self, request: Request) -> None:
        """Removes a request that ends."""
        self._leave(request)
        for heap in (self._leaders, self._followers):
            if len(heap) > 2 * len(self._members) + 16:
                heap[:] = [entry for entry in heap if self._is_member(entry[3])]
                heapq.heapify(heap)

    # -- lines -------------------------------------------------------------------

    def _arrive(self, request: Request) -> None:
        """Ranks a request that comes first, or puts it in its line."""
        self._latest = max(self._latest, (request.sequence, request.queued_at))
        group = _group(request)
        if group is None:
            self._rank(request, 2 * request.sequence, request.queued_at)
        elif group in self._heads:
            request.is_follower = True
            self._lines.setdefault(group, deque()).append(request)
        else:
            self._heads[group] = request
            self._rank(request, 2 * request.sequence, request.queued_at)

    def _rank(self, request: Request, place: int, since: int) -> None:
        level = self._order.level(request.priority, since)
        request.rank = (level, place, request.sequence)
        self._enter(request)

    def _enter(self, request: Request) -> None:
        assert request.rank is not None
        heapq.heappush(self._heap_of(request), (*request.rank, request))

    def _leave(self, request: Request) -> None:
        del self._members[request.request_id]
        self.num_tokens -= request.num_tokens
        self.oldest.remove(request)
        group = _group(request)
        if group is not None and self._heads.get(group) is request:
            self._advance(group)

    def _advance(self, group: _Group) -> None:
        """Lets the next of a line join the queue, behind the latest arrival."""
        del self._heads[group]
        line = self._lines.get(group, ())
        while line:
            request = line.popleft()
            if self._is_member(request):
                self._heads[group] = request
                sequence, at = self._latest
                self._rank(request, 2 * sequence + 1, at)
                break
        if not line:
            self._lines.pop(group, None)

    # -- heaps -------------------------------------------------------------------

    def _heap_of(self, request: Request) -> _Heap:
        return self._followers if request.is_follower else self._leaders

    def _top(self, heap: _Heap) -> Request | None:
        while heap:
            if self._is_member(request := heap[0][3]):
                return request
            heapq.heappop(heap)
        return None

    def _is_member(self, request: Request) -> bool:
        """Compares identity: a later request may have a removed one's id."""
        return self._members.get(request.request_id) is request


def _group(request: Request) -> _Group | None:
    """Returns what the choices of one client's request share; None without an id."""
    facts = request.facts
    if not facts.client_id:
        return None
    return facts.tenant or "", facts.client_id, facts.priority
