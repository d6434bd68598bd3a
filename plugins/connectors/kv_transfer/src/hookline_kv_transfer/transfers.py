"""The scheduler's side: KV transfers to and from a connector.

===============  ================================================================
blocks of        are referenced by
===============  ================================================================
an async load    the load, until it ends: its request has none while it waits
a sync load      the request, which is in the batch; they are cached at its end
a save           the save, besides requests that reuse them
a cancelled one  the outbox, until the worker confirms that it is closed
===============  ================================================================
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from hookline.clock import NANOSECONDS
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline.events import PreemptionCause
from hookline.finish_cause import Failed
from hookline.payloads import EngineFacts
from hookline.request import Request, RequestStatus
from hookline.sections import Section
from hookline.step import ModelShape
from hookline_kv_transfer.answers import Answer, Answers
from hookline_kv_transfer.block_changes import BlockChanges
from hookline_kv_transfer.config import KVTransferConfig, LoadFailurePolicy
from hookline_kv_transfer.connector import SchedulerConnector
from hookline_kv_transfer.fetch_stages import FetchStages
from hookline_kv_transfer.guard import ConnectorGuard
from hookline_kv_transfer.layout import KV_LAYOUT, KVLayout
from hookline_kv_transfer.loading import register_kv_layout
from hookline_kv_transfer.loads import LoadEnd, Loads
from hookline_kv_transfer.messages import PlannedStep
from hookline_kv_transfer.orders import TransferOrders, TransferReport
from hookline_kv_transfer.prefix_fetching import PrefixFetching
from hookline_kv_transfer.remote_kv_gate import RemoteKVGate
from hookline_kv_transfer.saves import Saves
from hookline_kv_transfer.transfer_ledger import TransferLedger
from hookline_kv_transfer.transfer_outbox import Outbox
from hookline_kv_transfer.transfer_state import TransferStates
from hookline_metrics.transfer_calls import (
    ReleaseTransfer,
    ResetTiers,
    TransferAnswer,
    read_call,
)
from hookline_metrics.transfer_failures import Reason
from hookline_metrics.transfer_stats import (
    TierStats,
    TransferNews,
    TransferStats,
    TransferStep,
)
from hookline_registry import isolate

_HOST_TIER = "cpu"
"""Name of a connector's tier in host memory."""

_NO_TIER = TierStats()


class Transfers(SchedulerSide):
    """The loads and saves of one scheduler.

    Attributes:
        ledger: Totals since the engine's start.
    """

    sleep_obstacle = "an engine with a KV connector cannot sleep"

    def __init__(
        self,
        config: KVTransferConfig,
        connector: SchedulerConnector,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Gets ready for a model.

        Args:
            config: Roles, deadlines and policies.
            connector: The scheduler's side of the connector.
            clock: Seconds, for the circuit breaker.
        """
        self._config = config
        self._connector = connector
        self._clock = clock
        self._states = TransferStates()
        self._stages = FetchStages()
        self._changes = BlockChanges()
        self.ledger = TransferLedger()
        self._has_reported_end = self._has_hung = False
        self._answers: Answers | None = None
        self._fails = config.kv_load_failure_policy is LoadFailurePolicy.FAIL
        self.gate = self._gate = RemoteKVGate(self._arrived, self._drop_load)

    def loaded(self, shape: ModelShape) -> None:
        """Shows the layout of the blocks to the connector.

        Raises:
            ConfigError: The connector cannot use them.
        """
        found = [KV_LAYOUT.read(sections) for sections in shape.rank_sections]
        layouts = [each for each in found if each is not None]
        assert layouts, "every rank tells its layout"
        name = self._config.kv_connector
        register_kv_layout(self._connector, name, KVLayout.of_ranks(layouts))
        self._guard = ConnectorGuard(self._connector, name, clock=self._clock)

    def describe(self, facts: EngineFacts) -> EngineFacts:
        """Names the connector, and tells the size of its tier in host memory."""
        host = self._guard.tier_stats().get(_HOST_TIER, _NO_TIER)
        return replace(
            facts,
            cache=replace(
                facts.cache,
                connector=self._config.kv_connector,
                host_blocks=host.max_blocks,
                host_bytes=host.max_bytes,
            ),
        )

    def start(self, port: SchedulerPort) -> None:
        """Follows the KV cache, and offers to load."""
        self._port, config, cache = port, self._config, port.cache
        cache.add_listener(self._changes)
        self._outbox = Outbox(cache.pool)
        self._hit_source = self._guard.hit_source
        self._loads = Loads(
            cache,
            self._guard,
            self._outbox,
            self.ledger,
            self._states,
            timeout_ns=round(config.kv_load_timeout_seconds * NANOSECONDS),
        )
        self._saves = Saves(
            cache,
            self._guard,
            self._outbox,
            self.ledger,
            self._states,
            timeout_ns=round(config.kv_save_timeout_seconds * NANOSECONDS),
            grace_ns=round(config.kv_save_grace_seconds * NANOSECONDS),
            keeps=config.saves,
        )
        self.external_prefix = PrefixFetching(
            cache=cache,
            gate=self._gate,
            loads=self._loads,
            saves=self._saves,
            stages=self._stages,
            states=self._states,
            changes=self._changes,
            ledger=self.ledger,
            may_load=config.loads,
        )

    # -- requests -------------------------------------------------------------

    def _arrived(self, request: Request) -> None:
        if request in self._states:
            return
        state = self._states.of(request)
        if self._config.loads:
            self._stages.arrived(request, state.params)

    def _drop_load(self, request: Request) -> None:
        self._loads.forget(request)

    def finished(self, request: Request, now: int) -> dict[str, object] | None:
        """Notifies the connector of a request's end; keeps the blocks to be saved.

        Returns:
            `kv_transfer_params` for the client, or None.
        """
        self._stages.left(request)
        self._has_reported_end = True
        params = self._saves.finish(request, now)
        self._states.forget(request)
        return params

    def told(self, section: object) -> TransferAnswer | None:
        """Empties the connector's tiers, or frees what is kept for another engine."""
        call = isolate(read_call, section)
        if isinstance(call, ResetTiers):
            if call.external is not False:
                self._loads.outdate()
            self._has_reported_end = True  # so that the worker hears of it
            return TransferAnswer(tiers=self._guard.reset_cache(call.external))
        if isinstance(call, ReleaseTransfer):
            return TransferAnswer(released_blocks=self._saves.give_up(call.transfer_id))
        return None

    # -- with each step ----------------------------------------------------------

    def planning(self, now: int) -> None:
        """Cancels transfers past their deadline."""
        self._saves.expire(now)
        self._end(self._loads.expire(now), now)

    def plan(self, builder: PlanBuilder) -> TransferOrders:  # noqa: ARG002
        """Returns the transfer orders of the plan being built."""
        loads, saves, cancelled = self._outbox.drain()
        self._has_reported_end = False
        written, evicted, spoilt = self._changes.collect(self._outbox.pool)
        if not self._config.saves:
            written, evicted = (), ()
        step = PlannedStep(
            written=written,
            evicted=evicted,
            spoilt=spoilt,
            cancelled=tuple(cancelled),
        )
        return TransferOrders(
            metadata=self._guard.metadata(step),
            loads=loads,
            saves=saves,
            cancelled=cancelled,
        )

    def update(self, section: object, now: int) -> TransferStep | None:
        """Processes the worker's report: ends loads, and frees saved blocks."""
        report = REPORT.typed(section)
        self.ledger.add_report(report)
        if self._answers is not None:
            self._answers.add_report(report)
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
            elif (end := self._loads.complete(ended)) is not None:
                ends.append(end)
            else:
                self._saves.complete(ended, now)
        for transfer_id in report.closed:
            self._outbox.confirmed(transfer_id)
        self._end(ends, now)
        if not report.has_news:
            return None
        return TransferStep(len(report.ended), len(report.closed))

    def _end(self, ends: Iterable[LoadEnd], now: int) -> None:
        """Lets requests go on, be recomputed or end, as their loads have ended."""
        for end in ends:
            request = end.request
            if end.reason:
                self._port.discard_pending(request)
            if end.reason and self._fails:
                self._port.finish(request, Failed(f"KV load failed: {end.reason}"), now)
                continue
            self.ledger.recomputed_tokens += end.lost_tokens + end.spoilt_tokens
            if self._port.requeue(request, now):
                state = self._states.of(request)
                assert state.waited is not None
                state.waited = (state.waited[0], now)
                self._stages.ended(request)
            elif end.reason:
                if request.status is RequestStatus.RUNNING:
                    cause, lost = PreemptionCause.LOAD_FAILED, end.lost_tokens
                    self._port.preempt(request, cause, now, num_failed=lost)
                request.is_provisional = False

    # -- state -----------------------------------------------------------------

    def is_busy(self) -> bool:
        """Whether the worker must be polled even if nothing is computed.

        It is polled once more after a request's end, on which the connector may act.
        """
        if self._has_reported_end:
            return True
        if self._loads or self._saves or self._outbox.closing:
            return True
        return self._guard.is_moving() and not self._has_hung

    def held_blocks(self) -> Iterator[Sequence[int]]:
        """Yields the blocks that each transfer references."""
        yield from (entry.held for entry in self._loads)
        yield from (entry.save.block_ids for entry in self._saves)
        yield from self._outbox.closing.values()

    def news(self) -> TransferNews | None:
        """Returns loads that ended, and the connector's events."""
        loads, events = self.ledger.take_loads(), self._guard.take_events()
        if not loads and not events:
            return None
        return TransferNews(tuple(loads), tuple(events))

    def statistics(self) -> TransferStats:
        """Returns the totals, and what is in progress now."""
        self.ledger.add_failures(self._guard.take_failures())
        return self.ledger.stats(
            loading=len(self._loads),
            saving=len(self._saves),
            closing=len(self._outbox.closing),
            held_blocks=sum(map(len, self.held_blocks())),
            oldest_load_at=next((each.started_at for each in self._loads), None),
            oldest_save_at=next((each.started_at for each in self._saves), None),
            breaker_open=self._guard.breaker_open,
            tiers=self._guard.tier_stats(),
            hit_source=self._hit_source,
            waiting_to_load=self._stages.num_to_start,
            loaded_waiting=self._stages.num_loaded,
        )

    # -- recordings ------------------------------------------------------------

    def keep_answers(self) -> None:
        """Keeps what the connector answers, until `take_answers`."""
        self._answers = self._guard.answers = Answers()

    def take_answers(self) -> list[Answer]:
        """Returns what the connector has answered since the last call."""
        return [] if self._answers is None else self._answers.take()

    def recorded_options(self) -> dict[str, object]:
        """Returns what transfers are decided by, besides the connector."""
        section = self._config.section()
        for name in ("kv_connector", "kv_connector_extra_config"):
            section.pop(name, None)
        return section

    def close(self) -> None:
        self._guard.close()


REPORT = Section(KV_LAYOUT.name, TransferReport)
"""The worker's section of a step's result."""
