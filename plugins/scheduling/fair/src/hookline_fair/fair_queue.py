"""The waiting queue of the policy `fair`: tenants in turn, by what they were served."""

from collections.abc import Sequence
from itertools import islice

from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.queue import OldestRequest
from hookline.request import Request
from hookline.stats.scheduler_stats import MOST_TENANTS, TenantStats
from hookline_fair.tenant_shares import (
    OUTPUT_COST,
    PROMPT_COST,
    Tenant,
    TenantHeap,
    TenantShares,
)


class FairScheduling(SchedulerSide):
    """Brings the queue of the policy."""

    def __init__(self) -> None:
        self.tenants = FairQueue()


class FairExtension:
    """The policy `fair`, which works in the scheduler alone."""

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        return FairScheduling()


class FairQueue:
    """A `WaitingQueue` for each tenant; the tenant served least is the next.

    Implements `TenantQueue`.
    """

    def __init__(self) -> None:
        self._shares = TenantShares()
        self._waiting = TenantHeap(lambda each: bool(each.queue.requests))
        self._leading = TenantHeap(lambda each: each.queue.has_leader)
        self._last: Tenant | None = None
        self.requests: dict[int, Request] = {}
        self.num_tokens = 0
        self.oldest = OldestRequest()

    def stats(self) -> dict[str, TenantStats]:
        """Returns the tenants that have been known longest, idle ones included."""
        waiting = [each.virtual_time for each in self._shares if each.queue.requests]
        most = max(waiting, default=0.0)
        return {
            each.name: TenantStats(
                len(each.queue.requests),
                most - each.virtual_time if each.queue.requests else 0.0,
            )
            for each in islice(self._shares, MOST_TENANTS)
        }

    def rank(self, request: Request) -> tuple[float, ...]:
        """The largest is preempted: the latest of the tenant that was served most."""
        tenant = self._shares.of(request)
        return tenant.virtual_time, *tenant.queue.rank(request)

    # -- accounts ----------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        """Notes a new request, which need not wait in this queue."""
        self._shares.arrived(request)

    def ended(self, request: Request) -> None:
        """Notes the end of a request, which must have left this queue."""
        self._shares.ended(request)

    def served_prompt(self, request: Request, num_tokens: int) -> None:
        """Charges the prompt tokens that a request has computed or will compute."""
        self._shares.of(request).charge(PROMPT_COST * num_tokens)

    def served_output(self, request: Request, num_tokens: int) -> None:
        """Charges output tokens."""
        self._shares.of(request).charge(OUTPUT_COST * num_tokens)

    # -- requests ----------------------------------------------------------------

    def push(self, request: Request) -> None:
        tenant = self._shares.of(request)
        if not tenant.queue.requests and request.rank is None:
            self._lift(tenant)
        self.requests[request.request_id] = request
        self.num_tokens += len(request.token_ids)
        self.oldest.add(request)
        tenant.queue.push(request)
        self._enter(tenant)

    def peek(self, *, has_followers: bool = True) -> Request | None:
        """Returns the next request; see `WaitingQueue`."""
        heap = self._waiting if has_followers else self._leading
        tenant = heap.least()
        if tenant is None:
            return None
        return tenant.queue.peek(has_followers=has_followers)

    def pop(self, request: Request) -> None:
        """Removes a request that `peek` has returned."""
        self._leave(request)
        tenant = self._shares.of(request)
        tenant.queue.pop(request)
        self._last = tenant

    def lengthen(self, request: Request, token_ids: Sequence[int]) -> None:
        """Appends tokens that were in flight when the request was queued."""
        self._shares.of(request).queue.lengthen(request, token_ids)
        self.num_tokens += len(token_ids)

    def remove(self, request: Request) -> None:
        """Removes a request that ends."""
        self._leave(request)
        self._shares.of(request).queue.remove(request)
        for heap in (self._waiting, self._leading):
            if len(heap) > 2 * len(self._shares) + 16:
                heap.sweep()

    def _lift(self, tenant: Tenant) -> None:
        """Takes from a tenant that did not wait what it has not used."""
        least = self._waiting.least() or self._last
        if least is not None:
            tenant.virtual_time = max(tenant.virtual_time, least.virtual_time)

    def _enter(self, tenant: Tenant) -> None:
        self._waiting.enter(tenant)
        if tenant.queue.has_leader:
            self._leading.enter(tenant)

    def _leave(self, request: Request) -> None:
        del self.requests[request.request_id]
        self.num_tokens -= len(request.token_ids)
        self.oldest.remove(request)
