"""The engine core: schedule, start, take the result, update, emit."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.core.capacity import check_capacity
from hookline.events import CacheChanges, ClockPair, StepOutput, StepRecord
from hookline.kv_cache import KVCacheManager
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.payloads import EngineFacts
from hookline.request import EngineRequest, FinishReason
from hookline.scheduler import Scheduler
from hookline.scheduler.journal import Journal
from hookline.scheduler.transfers import Transfers
from hookline.step import StepPlan, StepResult
from hookline.worker.executor import Executor, StartedStep

WAIT = "wait"
"""Of an output that tells nothing: whatever there is to do waits for somebody else."""


class _Step(NamedTuple):
    """A step that the executor was given, and when."""

    plan: StepPlan
    started: StartedStep
    started_at: int
    scheduled_at: int


class EngineCore:
    """One engine: a scheduler, a KV cache and an executor, driven step by step.

    Not thread-safe: whoever drives it owns it.
    """

    def __init__(
        self,
        config: EngineConfig,
        executor: Executor,
        clock: Clock,
        connector: ConnectorGuard | None = None,
    ) -> None:
        """Builds an engine around an executor that has its model ready.

        Args:
            config: Of the engine.
            executor: Runs the model.
            clock: Tells the time.
            connector: Of KV, on this side, if `config` names one.

        Raises:
            ConfigError: The block pool or the token budget is too small for even one
                request.
        """
        shape = executor.shape
        check_capacity(config, shape)
        self.clock = clock
        self._index = config.engine_index
        self._executor = executor
        self._lead = int(config.scheduler.async_scheduling)
        self._under_way: deque[_Step] = deque()
        self._last_executed = clock.now()
        cache = KVCacheManager(config.cache, shape.num_kv_blocks, clock)
        self._follows_cache = config.follows_cache
        self._cache_changes = 0
        if self._follows_cache:
            cache.follow()
        self._scheduler = Scheduler(
            config.scheduler,
            cache,
            max_model_len=shape.max_model_len,
            draft_tree=shape.draft_tree,
            transfers=Transfers(cache, connector, config.kv_transfer),
        )
        self.facts = EngineFacts(
            engine_index=config.engine_index,
            model_name=config.model.served_name,
            architecture=shape.architecture,
            dtype=shape.dtype,
            vocab_size=shape.vocab_size,
            max_model_len=shape.max_model_len,
            block_size=config.cache.block_size,
            num_kv_blocks=shape.num_kv_blocks,
            max_num_seqs=config.scheduler.max_num_seqs,
            max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
            enable_prefix_caching=config.cache.enable_prefix_caching,
            eos_token_ids=shape.eos_token_ids,
            executor=config.executor.kind,
            cost=shape.cost,
            kernels=shape.kernels,
        )

    @property
    def has_work(self) -> bool:
        """Whether there is a step to take: for requests, or something under way."""
        scheduler = self._scheduler
        under_way = bool(self._under_way) or scheduler.has_transfers
        return scheduler.has_requests or under_way

    def clock_pair(self) -> ClockPair:
        return ClockPair(self.clock.wall(), self.clock.now())

    def add(self, request: EngineRequest) -> None:
        self._scheduler.add(request, self.clock.now())

    def finish(
        self, request_ids: Sequence[int], reason: FinishReason, cause: str
    ) -> None:
        self._scheduler.finish(request_ids, reason, cause, self.clock.now())

    def reset_prefix_cache(self) -> None:
        self._scheduler.reset_prefix_cache()

    def step(self) -> StepOutput:
        """Runs one step and tells all that happened since the last output.

        With asynchronous scheduling it starts a step and takes the one before it, and
        at first there is none: the output then tells a start. There must be work. Where
        all of it waits for transfers of KV, it asks for these alone; the output tells a
        `transfer`, or that it is to be asked again later: `WAIT`.
        """
        if self._start_step() and len(self._under_way) <= self._lead:
            return self._emit("start", self.clock.now(), None)
        if not self._under_way:
            return self._ask_for_transfers()
        step = self._under_way.popleft()
        result = step.started.result()
        executed = self.clock.now()
        self._scheduler.update(result, executed)
        return self._emit("step", executed, self._record(step, result, executed))

    def _start_step(self) -> bool:
        """Plans a step and hands it over; False if there is nothing to compute now."""
        started = self.clock.now()
        if (plan := self._scheduler.schedule(started)) is None:
            return False
        scheduled = self.clock.now()
        step = _Step(plan, self._executor.start(plan), started, scheduled)
        self._under_way.append(step)
        return True

    def _ask_for_transfers(self) -> StepOutput:
        result = self._executor.start(self._scheduler.plan_transfers()).result()
        now = self.clock.now()
        self._scheduler.update(result, now)
        has_news = result.transfers is not None and result.transfers.has_news
        has_news = has_news or not self._scheduler.journal.is_empty
        has_news = has_news or self._scheduler.has_cache_changes
        return self._emit("transfer" if has_news else WAIT, now, None)

    def state(self, cause: str) -> StepOutput:
        """Tells the present state, and what happened since the last output."""
        self._scheduler.audit()
        return self._emit(cause, self.clock.now(), None, clock=self.clock_pair())

    def close(self) -> None:
        self._executor.close()
        self._scheduler.close()

    def _record(self, step: _Step, result: StepResult, executed: int) -> StepRecord:
        plan = step.plan
        waited = max(0, self._last_executed - step.scheduled_at)
        self._last_executed = executed
        verified = self._scheduler.journal.verified
        return StepRecord(
            step=plan.step,
            engine_index=self._index,
            started_at=step.started_at,
            scheduled_at=step.scheduled_at,
            executed_at=executed,
            ended_at=self.clock.now(),
            prefill_requests=plan.prefill_requests,
            prefill_tokens=plan.prefill_tokens,
            decode_requests=len(plan.request_ids) - plan.prefill_requests,
            decode_tokens=plan.total_tokens - plan.prefill_tokens,
            request_tokens=list(zip(plan.request_ids, plan.num_tokens, strict=True)),
            context_tokens=plan.context_tokens,
            attention_pairs=plan.attention_pairs,
            sampled_requests=len(result.tokens),
            forward_ns=result.forward_ns,
            waited_ns=waited,
            drafts=verified.drafts,
            draft_tokens=verified.draft_tokens,
            accepted_tokens=verified.accepted_tokens,
            accepted_by_position=verified.accepted_by_position,
            draft_ns=result.draft_ns,
            proposer_failures=result.proposer_failures,
            most_drafts=result.most_drafts,
        )

    def _emit(
        self,
        cause: str,
        at: int,
        record: StepRecord | None,
        *,
        clock: ClockPair | None = None,
    ) -> StepOutput:
        journal, self._scheduler.journal = self._scheduler.journal, Journal()
        return StepOutput(
            engine_index=self._index,
            at=at,
            cause=cause,
            stats=self._scheduler.stats(),
            record=record,
            queued=journal.queued,
            scheduled=journal.scheduled,
            preempted=journal.preempted,
            new_tokens=journal.new_tokens,
            finished=journal.finished,
            evictions=self._scheduler.drain_evictions(),
            clock=clock,
            cache_changes=self._take_cache_changes() if self._follows_cache else None,
        )

    def _take_cache_changes(self) -> CacheChanges | None:
        if not (events := self._scheduler.take_cache_changes()):
            return None
        self._cache_changes += 1
        return CacheChanges(self._cache_changes, events)
