"""What each tenant has been served, in tokens by weight: the clocks of fair queueing.

A tenant's virtual time advances by the cost of its tokens divided by its weight, and
the waiting tenant with the least is served next. A tenant that starts to wait is lifted
to the least of the others: it does not save up while it wants nothing. (Sheng et al.,
"Fairness in Serving Large Language Models", OSDI 2024.)
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hookline.engine.scheduler.queue import WaitingQueue
from hookline.request import Request

PROMPT_COST, OUTPUT_COST = 1.0, 2.0
"""Cost of a computed prompt token, and of an output token."""

MOST_IDLE = 1024
"""Tenants without requests whose virtual time is remembered."""


@dataclass(slots=True, eq=False)
class Tenant:
    """A tenant; requests without one share a tenant of their own.

    Attributes:
        name: Its name; empty for requests without a tenant.
        number: Order of first appearance, which decides between equals.
        weight: The weight of its latest request.
        virtual_time: Cost of what it has been served, divided by its weight.
        num_live: Number of its requests that have not ended.
        queue: Its waiting requests.
    """

    name: str
    number: int
    weight: float = 1.0
    virtual_time: float = 0.0
    num_live: int = 0
    queue: WaitingQueue = field(default_factory=WaitingQueue)

    def charge(self, cost: float) -> None:
        self.virtual_time += cost / self.weight


class TenantHeap:
    """Finds the eligible tenant of the least virtual time, in O(log n).

    Virtual times only grow, so an entry that is too early is moved when it comes up.
    """

    def __init__(self, is_eligible: Callable[[Tenant], bool]) -> None:
        self._is_eligible = is_eligible
        self._heap: list[tuple[float, int, Tenant]] = []
        self._entered: set[Tenant] = set()

    def enter(self, tenant: Tenant) -> None:
        """Adds a tenant that has become eligible; does nothing if it is there."""
        if tenant not in self._entered:
            self._entered.add(tenant)
            heapq.heappush(self._heap, (tenant.virtual_time, tenant.number, tenant))

    def least(self) -> Tenant | None:
        """Returns the eligible tenant that has been served least, or None."""
        heap = self._heap
        while heap:
            at, number, tenant = heap[0]
            if not self._is_eligible(tenant):
                heapq.heappop(heap)
                self._entered.discard(tenant)
            elif at < tenant.virtual_time:
                heapq.heapreplace(heap, (tenant.virtual_time, number, tenant))
            else:
                return tenant
        return None

    def sweep(self) -> None:
        """Drops the tenants that are not eligible."""
        self._heap = [entry for entry in self._heap if self._is_eligible(entry[2])]
        heapq.heapify(self._heap)
        self._entered = {entry[2] for entry in self._heap}

    def __len__(self) -> int:
        return len(self._heap)


class TenantShares:
    """The tenants that have requests, and the latest of those that had some."""

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._idle: dict[str, None] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._tenants)

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._tenants.values())

    def of(self, request: Request) -> Tenant:
        """Returns the tenant of a live request."""
        return self._tenants[request.facts.tenant or ""]

    def arrived(self, request: Request) -> None:
        """Notes a new request, and its tenant's weight."""
        name = request.facts.tenant or ""
        tenant = self._tenants.get(name)
        if tenant is None:
            self._number += 1
            tenant = self._tenants[name] = Tenant(name, self._number)
        self._idle.pop(name, None)
        tenant.weight = request.facts.weight
        tenant.num_live += 1

    def ended(self, request: Request) -> None:
        """Notes the end of a request; the longest idle tenants are forgotten."""
        tenant = self.of(request)
        tenant.num_live -= 1
        if tenant.num_live == 0:
            self._idle[tenant.name] = None
            if len(self._idle) > MOST_IDLE:
                oldest = next(iter(self._idle))
                del self._idle[oldest], self._tenants[oldest]
