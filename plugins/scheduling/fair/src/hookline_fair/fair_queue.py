"""The waiting queue of the policy `fair`: by what those who pay were served.

Tenants of one payer take turns in what it gets.
"""

from collections.abc import Sequence

import msgspec

from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.queue import RequestTimes
from hookline.request import Request
from hookline.stats.scheduler_stats import MOST_TENANTS, TenantStats
from hookline_fair.state import FairState
from hookline_fair.tenant_shares import (
    OUTPUT_COST,
    PROMPT_COST,
    Payer,
    ShareHeap,
    Tenant,
    TenantShares,
    has_leader,
)


class FairScheduling(SchedulerSide):
    """Brings the queue of the policy."""

    tenants: "FairQueue"

    def __init__(self) -> None:
        self.tenants = FairQueue()

    def checkpoint(self) -> FairState:
        """Returns what has been served to whom."""
        return self.tenants.state()

    def restore(self, state: object) -> None:
        """Takes what `checkpoint` returned, once the requests are queued.

        Raises:
            ValueError: It is something else.
        """
        self.tenants.restore(msgspec.convert(state, FairState))


class FairExtension:
    """The policy `fair`, which works in the scheduler alone."""

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        return FairScheduling()


class FairQueue:
    """A `WaitingQueue` for each tenant; the payer served least is the next.

    Implements `TenantQueue`.
    """

    def __init__(self) -> None:
        self._shares = TenantShares()
        self._waiting: ShareHeap[Payer] = ShareHeap(lambda payer: payer.is_waiting)
        self._leading: ShareHeap[Payer] = ShareHeap(lambda payer: payer.has_leader)
        self._last: Payer | None = None
        self.requests: dict[int, Request] = {}
        self.num_tokens = 0
        self.times = RequestTimes()

    def state(self) -> FairState:
        """Returns what has been served to whom."""
        return self._shares.state(self._last)

    def restore(self, state: FairState) -> None:
        """Takes what `state` returned; the requests are there already."""
        self._shares.restore(state)
        self._last = self._shares.payer(state.last)
        self._waiting = ShareHeap(lambda payer: payer.is_waiting)
        self._leading = ShareHeap(lambda payer: payer.has_leader)
        for tenant in self._shares:
            if tenant.queue.requests:
                self._enter(tenant)

    def stats(self) -> dict[str, TenantStats]:
        """Returns the tenants that have been known longest, idle ones included.

        One that several pay for has the sum of their requests and the longest lag.
        """
        most: dict[Payer | None, float] = {None: 0.0}
        for each in self._shares:
            if each.queue.requests:
                payer = each.payer
                most[None] = max(most[None], payer.virtual_time)
                most[payer] = max(most.get(payer, 0.0), each.virtual_time)
        found: dict[str, TenantStats] = {}
        for each in self._shares:
            if each.label in found or len(found) < MOST_TENANTS:
                waiting, lag, payer = len(each.queue.requests), 0.0, each.payer
                if waiting:
                    lag = most[None] - payer.virtual_time
                    lag += most[payer] - each.virtual_time
                known = found.get(each.label, TenantStats())
                found[each.label] = TenantStats(
                    known.waiting + waiting, max(known.lag_tokens, lag)
                )
        return found

    def rank(self, request: Request) -> tuple[float, ...]:
        """The largest is preempted: the latest of those who were served most."""
        tenant = self._shares.of(request)
        times = tenant.payer.virtual_time, tenant.virtual_time
        return *times, *tenant.queue.rank(request)

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
        self.times.add(request, request.queued_at)
        tenant.queue.push(request)
        self._enter(tenant)

    def peek(self, *, has_followers: bool = True) -> Request | None:
        """Returns the next request; see `WaitingQueue`."""
        heap = self._waiting if has_followers else self._leading
        if (payer := heap.least()) is None:
            return None
        tenant = (payer.waiting if has_followers else payer.leading).least()
        assert tenant is not None, "the payer would not be eligible"
        return tenant.queue.peek(has_followers=has_followers)

    def pop(self, request: Request) -> None:
        """Removes a request that `peek` has returned."""
        self._leave(request)
        tenant = self._shares.of(request)
        tenant.queue.pop(request)
        self._last = tenant.payer
        tenant.payer.last = tenant

    def lengthen(self, request: Request, token_ids: Sequence[int]) -> None:
        """Appends tokens that were in flight when the request was queued."""
        self._shares.of(request).queue.lengthen(request, token_ids)
        self.num_tokens += len(token_ids)

    def remove(self, request: Request) -> None:
        """Removes a request that ends."""
        self._leave(request)
        tenant = self._shares.of(request)
        tenant.queue.remove(request)
        payer = tenant.payer
        for outer, inner in (
            (self._waiting, payer.waiting),
            (self._leading, payer.leading),
        ):
            inner.shrink(len(payer.tenants))
            outer.shrink(len(self._shares))

    def _lift(self, tenant: Tenant) -> None:
        """Takes from those who did not wait what they have not used."""
        payer = tenant.payer
        least = payer.waiting.least()
        if least is None:
            payer.lift(self._waiting.least() or self._last)
        tenant.lift(least or payer.last)

    def _enter(self, tenant: Tenant) -> None:
        payer = tenant.payer
        payer.waiting.enter(tenant)
        self._waiting.enter(payer)
        if has_leader(tenant):
            payer.leading.enter(tenant)
            self._leading.enter(payer)

    def _leave(self, request: Request) -> None:
        del self.requests[request.request_id]
        self.num_tokens -= len(request.token_ids)
        self.times.remove(request)
