"""What each client has been served, in tokens by weight: the clocks of fair queueing.

Shares are divided among those who pay first, then among the clients of each. A share's
virtual time advances by the cost of its tokens divided by its weight, and the waiting
share with the least is served next. One that starts to wait is lifted to the least of
the others: it does not save up while it wants nothing. (Sheng et al., "Fairness in
Serving Large Language Models", OSDI 2024.)
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hookline.engine.scheduler.queue import WaitingQueue
from hookline.request import Request
from hookline_fair.state import FairState, PayerState, TenantState

PROMPT_COST, OUTPUT_COST = 1.0, 2.0
"""Cost of a computed prompt token, and of an output token."""

MOST_IDLE = 1024
"""Payers without requests whose virtual time is remembered."""

MOST_IDLE_TENANTS = 128
"""Tenants without requests whose virtual time is remembered, of each payer."""


@dataclass(slots=True, eq=False)
class Share:
    """A share of the engine.

    Attributes:
        number: Order of first appearance, which decides between equals.
        virtual_time: Cost of what it has been served, divided by its weight.
        num_live: Number of its requests that have not ended.
    """

    number: int
    virtual_time: float = 0.0
    num_live: int = 0

    def lift(self, least: "Share | None") -> None:
        """Takes from a share that did not wait what it has not used."""
        if least is not None:
            self.virtual_time = max(self.virtual_time, least.virtual_time)


S = TypeVar("S", bound=Share)


class ShareHeap(Generic[S]):
    """Finds the eligible share of the least virtual time, in O(log n).

    Virtual times only grow, so an entry that is too early is moved when it comes up.
    """

    def __init__(self, is_eligible: Callable[[S], bool]) -> None:
        self._is_eligible = is_eligible
        self._heap: list[tuple[float, int, S]] = []
        self._entered: set[S] = set()

    def enter(self, share: S) -> None:
        """Adds a share that has become eligible; does nothing if it is there."""
        if share not in self._entered:
            self._entered.add(share)
            heapq.heappush(self._heap, (share.virtual_time, share.number, share))

    def least(self) -> S | None:
        """Returns the eligible share that has been served least, or None."""
        heap = self._heap
        while heap:
            at, number, share = heap[0]
            if not self._is_eligible(share):
                heapq.heappop(heap)
                self._entered.discard(share)
            elif at < share.virtual_time:
                heapq.heapreplace(heap, (share.virtual_time, number, share))
            else:
                return share
        return None

    def shrink(self, num_shares: int) -> None:
        """Drops the shares that are not eligible, if they are most of them."""
        if len(self._heap) > 2 * num_shares + 16:
            self._heap = [entry for entry in self._heap if self._is_eligible(entry[2])]
            heapq.heapify(self._heap)
            self._entered = {entry[2] for entry in self._heap}

    def __len__(self) -> int:
        return len(self._heap)


class Payer(Share):
    """Who pays; its tenants divide what it gets.

    Attributes:
        name: Its name.
        weight: The weight of its latest request.
        tenants: Its tenants that have requests, and the latest that had some.
        waiting: Those of them that wait.
        leading: Those of them with a request that is no follower.
        last: The tenant that was served last.
    """

    __slots__ = ("_idle", "last", "leading", "name", "tenants", "waiting", "weight")

    def __init__(self, name: str, number: int) -> None:
        super().__init__(number)
        self.name = name
        self.weight = 1.0
        self.tenants: dict[str, Tenant] = {}
        self.waiting: ShareHeap[Tenant] = ShareHeap(has_waiting)
        self.leading: ShareHeap[Tenant] = ShareHeap(has_leader)
        self.last: Tenant | None = None
        self._idle: dict[str, None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether one of its requests waits."""
        return self.waiting.least() is not None

    @property
    def has_leader(self) -> bool:
        """Whether a request waits that is no follower."""
        return self.leading.least() is not None

    def arrived(self, name: str, number: int) -> "Tenant":
        """Notes a request of a tenant, which may be new."""
        tenant = self.tenants.get(name)
        if tenant is None:
            tenant = self.tenants[name] = Tenant(number, name=name, payer=self)
        self._idle.pop(name, None)
        tenant.num_live += 1
        self.num_live += 1
        return tenant

    def ended(self, tenant: "Tenant") -> None:
        """Notes the end of a request; the longest idle tenants are forgotten."""
        self.num_live -= 1
        tenant.num_live -= 1
        if tenant.num_live == 0:
            self._idle[tenant.name] = None
            forget_oldest(self._idle, self.tenants, MOST_IDLE_TENANTS)

    def state(self, *, is_idle: bool) -> PayerState:
        """Returns what is known of it and its tenants, the longest idle ones first."""
        idle = [self.tenants[name] for name in self._idle]
        others = (each for each in self.tenants.values() if each.name not in self._idle)
        last = None if self.last is None else self.last.name
        return PayerState(
            self.name,
            self.number,
            self.virtual_time,
            self.weight,
            last,
            is_idle,
            [
                TenantState(
                    each.name,
                    each.number,
                    each.virtual_time,
                    each.label,
                    each.name in self._idle,
                )
                for each in (*idle, *others)
            ],
        )

    def restore(self, state: PayerState) -> None:
        """Takes what `state` returned; tenants with requests are there already."""
        self.number, self.weight = state.number, state.weight
        self.virtual_time = state.virtual_time
        for each in state.tenants:
            tenant = self.tenants.get(each.name)
            if tenant is None:
                tenant = Tenant(each.number, name=each.name, payer=self)
                self.tenants[each.name] = tenant
                self._idle[each.name] = None
            tenant.number, tenant.label = each.number, each.label
            tenant.virtual_time = each.virtual_time
        self.last = None if state.last is None else self.tenants.get(state.last)
        self.waiting, self.leading = ShareHeap(has_waiting), ShareHeap(has_leader)


@dataclass(slots=True, eq=False, kw_only=True)
class Tenant(Share):
    """A tenant, or another name by which a payer divides what it gets.

    Attributes:
        name: Its name.
        payer: Who pays.
        label: The tenant of its latest request, for metrics; empty without one.
        queue: Its waiting requests.
    """

    name: str
    payer: Payer
    label: str = ""
    queue: WaitingQueue = field(default_factory=WaitingQueue)

    def charge(self, cost: float) -> None:
        """Charges it and its payer."""
        self.virtual_time += cost
        self.payer.virtual_time += cost / self.payer.weight


def has_waiting(share: Tenant) -> bool:
    """Whether one of its requests waits."""
    return bool(share.queue.requests)


def has_leader(share: Tenant) -> bool:
    """Whether a request waits that is no follower."""
    return share.queue.peek(has_followers=False) is not None


def forget_oldest(idle: dict[str, None], known: dict[str, S], most: int) -> None:
    """Forgets the share that has been idle longest, if there are too many."""
    if len(idle) > most:
        oldest = next(iter(idle))
        del idle[oldest], known[oldest]


class TenantShares:
    """The payers that have requests, and the latest of those that had some."""

    def __init__(self) -> None:
        self._payers: dict[str, Payer] = {}
        self._idle: dict[str, None] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._payers)

    def __iter__(self) -> Iterator[Tenant]:
        for payer in self._payers.values():
            yield from payer.tenants.values()

    def payer(self, name: str | None) -> Payer | None:
        """Returns a payer by name; None if it is not known."""
        return None if name is None else self._payers.get(name)

    def state(self, last: Payer | None) -> FairState:
        """Returns what is known, with the payer that was served last."""
        idle = [self._payers[name] for name in self._idle]
        others = [each for each in self._payers.values() if each.name not in self._idle]
        return FairState(
            self._number,
            None if last is None else last.name,
            [each.state(is_idle=each.name in self._idle) for each in (*idle, *others)],
        )

    def restore(self, state: FairState) -> None:
        """Takes what `state` returned; payers with requests are there already."""
        self._number = state.number
        for each in state.payers:
            payer = self._payers.get(each.name)
            if payer is None:
                payer = self._payers[each.name] = Payer(each.name, each.number)
                self._idle[each.name] = None
            payer.restore(each)

    def of(self, request: Request) -> Tenant:
        """Returns the tenant of a live request."""
        payer, name = _client(request)
        return self._payers[payer].tenants[name]

    def arrived(self, request: Request) -> None:
        """Notes a new request, and its weight."""
        name, tenant = _client(request)
        self._number += 1
        payer = self._payers.get(name)
        if payer is None:
            payer = self._payers[name] = Payer(name, self._number)
        self._idle.pop(name, None)
        payer.weight = request.facts.weight
        payer.arrived(tenant, self._number).label = request.facts.tenant or ""

    def ended(self, request: Request) -> None:
        """Notes the end of a request; the longest idle payers are forgotten."""
        tenant = self.of(request)
        payer = tenant.payer
        payer.ended(tenant)
        if payer.num_live == 0:
            self._idle[payer.name] = None
            forget_oldest(self._idle, self._payers, MOST_IDLE)


def _client(request: Request) -> tuple[str, str]:
    """Returns who pays, and for whom; where no server has said it, the tenant pays."""
    facts = request.facts
    return facts.client if facts.client[0] else (facts.tenant or "", "")
