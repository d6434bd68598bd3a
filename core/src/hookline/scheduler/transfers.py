"""KV transfers of one scheduler, to and from an optional connector.

===============  ================================================================
blocks of        are referenced by
===============  ================================================================
an async load    the load, until it ends: its request has none while it waits
a sync load      the request, which is in the batch; they are cached at its end
a save           the save, besides requests that reuse them
a cancelled one  the outbox, until the worker confirms that it is closed
===============  ================================================================
"""

from collections.abc import Iterator, Sequence

from hookline.clock import NANOSECONDS
from hookline.config.kv_transfer import KVTransferConfig, LoadFailurePolicy
from hookline.kv_cache import KVCacheManager
from hookline.kv_transfer.failure_reason import Reason
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.kv_transfer.messages import PlannedStep
from hookline.kv_transfer.orders import TransferOrders, TransferReport
from hookline.request import Request
from hookline.scheduler.block_changes import BlockChanges
from hookline.scheduler.fetch_stages import FetchStages
from hookline.scheduler.loads import NOTHING, LoadEnd, Loads, LoadStart, Offer
from hookline.scheduler.remote_kv_gate import RemoteKVGate
from hookline.scheduler.saves import Saves
from hookline.scheduler.transfer_ledger import TransferLedger
from hookline.scheduler.transfer_outbox import Outbox
from hookline.stats.connector_events import ConnectorEvent
from hookline.stats.transfers import TransferStats


class Transfers:
    """The loads and saves of one scheduler; does nothing without a connector.

    Attributes:
        gate: Readiness gate of requests that wait for loads; only with a connector.
        stages: Queued requests before and after their loads.
        ledger: Totals since the engine's start.
        failure_ends: Whether a request ends when its KV cannot be loaded.
    """

    def __init__(
        self,
        cache: KVCacheManager,
        guard: ConnectorGuard | None = None,
        config: KVTransferConfig | None = None,
    ) -> None:
        self._cache = cache
        self._guard = guard
        self._outbox = Outbox(cache.pool)
        self._changes = BlockChanges()
        self._has_reported_end = False
        self.ledger = TransferLedger()
        self.stages = FetchStages()
        self._has_hung = False
        self._may_load = self._may_save = self.failure_ends = False
        if guard is None or config is None:
            return
        cache.add_listener(self._changes)
        self._hit_source = guard.hit_source
        self._may_load, self._may_save = config.loads, config.saves
        policy = config.kv_load_failure_policy
        self.failure_ends = policy is LoadFailurePolicy.FAIL
        self._loads = Loads(
            cache,
            guard,
            self._outbox,
            self.ledger,
            timeout_ns=round(config.kv_load_timeout_seconds * NANOSECONDS),
        )
        self._saves = Saves(
            cache,
            guard,
            self._outbox,
            self.ledger,
            timeout_ns=round(config.kv_save_timeout_seconds * NANOSECONDS),
            grace_ns=round(config.kv_save_grace_seconds * NANOSECONDS),
            keeps=config.saves,
        )
        self.gate = RemoteKVGate(self._loads.forget)

    # -- requests -------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        """Takes note of a new request."""
        if self._may_load:
            self.stages.arrived(request)

    def offer(self, request: Request, prefix: Sequence[int]) -> Offer:
        """Returns the tokens that can be loaded after a prefix; see `Loads`."""
        if not self._may_load:
            return NOTHING
        offer = self._loads.offer(request, prefix)
        self.stages.looked_up(request, will_wait=offer.is_async)
        return offer

    def wait_for(
        self, request: Request, prefix: Sequence[int], offer: Offer, now: int
    ) -> LoadStart:
        """Begins an asynchronous load; see `Loads`."""
        start = self._loads.wait_for(request, prefix, offer, now)
        if start is not LoadStart.NO_ROOM:
            self.stages.begun(request)
        return start

    def load_in_step(
        self, request: Request, prefix: Sequence[int], offer: Offer, now: int
    ) -> bool:
        """Begins a synchronous load; see `Loads`."""
        return self._loads.load_in_step(request, prefix, offer, now)

    def admitted(self, request: Request) -> int:
        """Returns how many of an admitted request's tokens the connector loaded."""
        self.stages.left(request)
        brought = request.transfer.external_tokens
        found = max(0, min(request.num_computed_tokens, brought.stop) - brought.start)
        if found and request.transfer.unproven is None:
            request.transfer.may_load = True  # should it be preempted
        return found

    def count_lookup(self, request: Request, num_local: int, num_external: int) -> None:
        """Counts a lookup in the connector; call it once per request."""
        if self._may_load:
            proven = num_external if request.transfer.unproven is None else 0
            queried = request.num_prompt_tokens - num_local
            tiers = request.transfer.tier_tokens
            self.ledger.count_lookup(queried, proven, tiers)

    def finish(self, request: Request, now: int) -> dict[str, object] | None:
        """Notifies the connector of a request's end; call it before freeing blocks.

        Returns:
            `kv_transfer_params` for the client, or None.
        """
        if self._guard is None:
            return None
        self.stages.left(request)
        self._has_reported_end = True
        return self._saves.finish(request, now)

    def reclaim(self, num_blocks: int, now: int) -> None:
        """Gives up saves for a request that lacks this many blocks; see `Saves`."""
        if self._guard is not None:
            self._saves.reclaim(num_blocks, now)

    # -- with each step ----------------------------------------------------------

    def expire(self, now: int) -> list[LoadEnd]:
        """Cancels transfers past their deadline; returns the ends of loads."""
        if self._guard is None:
            return []
        self._saves.expire(now)
        return self._loads.expire(now)

    def orders(self) -> TransferOrders | None:
        """Returns the transfer orders of the plan being built; None without any."""
        if self._guard is None:
            return None
        loads, saves, cancelled = self._outbox.take()
        self._has_reported_end = False
        written, evicted = self._changes.take(self._cache.pool)
        if not self._may_save:
            written, evicted = (), ()
        step = PlannedStep(written=written, evicted=evicted, cancelled=tuple(cancelled))
        return TransferOrders(
            metadata=self._guard.metadata(step),
            loads=loads,
            saves=saves,
            cancelled=cancelled,
        )

    def settle(self, report: TransferReport | None, now: int) -> list[LoadEnd]:
        """Processes the executor's report; returns the ends of loads."""
        if report is None:
            return []
        assert self._guard is not None
        self.ledger.take(report)
        self._has_hung |= any(Reason.HUNG in each for each in report.failures.values())
        if report.payload:
            self._guard.receive(report.payload)
        self._saves.read(report.read, now)
        ends = []
        for ended in report.ended:
            if ended.transfer_id in self._outbox.closing:
                # It ended just before it was cancelled.
                self._outbox.confirmed(ended.transfer_id)
                self.ledger.late_reports += 1
            elif (end := self._loads.end(ended)) is not None:
                ends.append(end)
            else:
                self._saves.end(ended, now)
        for transfer_id in report.closed:
            self._outbox.confirmed(transfer_id)
        return ends

    # -- state -----------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether the worker must be polled even if nothing is computed.

        It is polled once more after a request's end, on which the connector may act.
        """
        if self._guard is None:
            return False
        if self._has_reported_end:
            return True
        if self._loads or self._saves or self._outbox.closing:
            return True
        return self._guard.is_moving() and not self._has_hung

    def held(self) -> Iterator[Sequence[int]]:
        """Yields the blocks that each transfer references."""
        if self._guard is not None:
            yield from (entry.held for entry in self._loads)
            yield from (entry.save.block_ids for entry in self._saves)
            yield from self._outbox.closing.values()

    def take_events(self) -> list[ConnectorEvent]:
        """Returns the connector's events since the last call."""
        return [] if self._guard is None else self._guard.take_events()

    def stats(self) -> TransferStats:
        if self._guard is None:
            return NO_TRANSFERS
        self.ledger.add_failures(self._guard.take_failures())
        return self.ledger.stats(
            loading=len(self._loads),
            saving=len(self._saves),
            closing=len(self._outbox.closing),
            held_blocks=sum(map(len, self.held())),
            oldest_load_at=next((each.started_at for each in self._loads), None),
            oldest_save_at=next((each.started_at for each in self._saves), None),
            breaker_open=self._guard.breaker_open,
            tiers=self._guard.tier_stats(),
            hit_source=self._hit_source,
            waiting_to_load=self.stages.num_to_start,
            loaded_waiting=self.stages.num_loaded,
        )

    def close(self) -> None:
        if self._guard is not None:
            self._guard.close()


NO_TRANSFERS = TransferStats()
