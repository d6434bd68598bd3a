"""The engine core: schedule, execute, update, emit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from hookline.clock import Clock
from hookline.engine.commands import ResetPrefixCache, SleepMode, TellExtensions, Told
from hookline.engine.scheduler.scheduler import Scheduler, SchedulerParts
from hookline.engine.worker.executor import Executor, SharingExecutor, StartedStep
from hookline.events import (
    ClockPair,
    PreemptionCause,
    StepOutput,
    StepRecord,
    VerifiedDrafts,
)
from hookline.finish_cause import Aborted, FinishCause
from hookline.request import GenerateRequest
from hookline.sections import Sections
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import EvictionWork
from hookline.step import SleepLevel, StepPlan, StepResult
from hookline_registry.isolation import Failure, isolate

if TYPE_CHECKING:  # they are only read or called
    from hookline.config.engine import EngineConfig
    from hookline.engine.tap import Tap
    from hookline.payloads import EngineFacts

WAIT = "wait"
"""Cause of an empty output: all work awaits extensions or gates."""


@dataclass(frozen=True, slots=True)
class StepInFlight:
    """A step that the executor has started.

    Attributes:
        plan: The step's plan.
        started: The executor's handle.
        started_at: Start of scheduling, monotonic ns.
        scheduled_at: Time when the executor got the plan, monotonic ns.
        evictions: Evictions from the prefix cache that made room for it.
    """

    plan: StepPlan
    started: StartedStep
    started_at: int
    scheduled_at: int
    evictions: EvictionWork


class EngineCore:
    """A scheduler, a KV cache and an executor, driven step by step.

    Not thread-safe: the thread that drives it owns it.

    Attributes:
        config: Configuration, with the defaults of the device.
        clock: Time source of all events.
        facts: Description of the engine for observers.
        sleep_level: Memory that is released while it sleeps; None while it is awake.
        has_ranks: Whether other processes compute its steps.
        check: Raises `RankError` if the executor can compute no more steps.
        sharing: Computes its steps if whole parts of its model are shared; or None.
        tap: Sees each step; None if nothing listens.
        scheduler: Plans its steps; for reading.
    """

    def __init__(
        self,
        config: "EngineConfig",
        executor: Executor,
        clock: Clock,
        facts: "EngineFacts",
        parts: SchedulerParts,
    ) -> None:
        """Builds an engine around an executor whose model is ready.

        Args:
            config: Configuration of the engine.
            executor: Runs the model.
            clock: Time source.
            facts: Description of the engine; extensions add to it.
            parts: Parts of its scheduler.

        Raises:
            ConfigError: An extension cannot serve the model.
        """
        shape = executor.shape
        self.config, self.clock = config, clock
        self._sides = parts.extensions
        self._sides.loaded(shape)
        self.facts = self._sides.described(facts)
        self._executor = executor
        self.sharing = executor if isinstance(executor, SharingExecutor) else None
        self.has_ranks, self.check = bool(executor.pids), executor.check
        self._lead = config.num_steps_ahead
        self._is_pipeline = config.parallel.pipeline_parallel_size > 1
        self._in_flight: deque[StepInFlight] = deque()
        self._last_executed = clock.now()
        self.sleep_level: SleepLevel | None = None
        self.tap: Tap | None = None
        self._evictions = parts.cache.pool.evictions
        self._scheduler = self.scheduler = Scheduler(
            config.scheduler, parts, max_model_len=shape.max_model_len
        )

    def watch(self, tap: "Tap") -> None:
        """Has a tap see each step from now on."""
        self.tap = tap
        self._scheduler.watch_gates(tap.gated)

    # -- requests ----------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether requests, steps in flight or extensions need a step."""
        if self._scheduler.requests or self._in_flight:
            return True
        return self._scheduler.needs_poll

    def add(self, request: GenerateRequest) -> None:
        """Queues a request; one that cannot be queued ends with an error.

        The front end has checked it. Should it be wrong, others are not concerned.
        """
        now = self.clock.now()
        outcome = isolate(self._scheduler.add, request, now)
        if isinstance(outcome, Failure):
            self._scheduler.refuse(request, outcome.summary, now)

    def finish(self, request_ids: Sequence[int], cause: FinishCause) -> None:
        """Ends requests; ids of requests that have ended already are ignored."""
        self._scheduler.finish(request_ids, cause, self.clock.now())

    def expire(self) -> None:
        """Ends requests whose deadlines have passed; each step does so, too."""
        self._scheduler.expire(self.clock.now())

    def reset_prefix_cache(self, *, preempts: bool = False) -> None:
        """Drops every reusable prefix; `preempts` has running requests lose theirs."""
        if preempts:
            self._scheduler.preempt_all(self.clock.now(), PreemptionCause.RESET)
        self._scheduler.reset_prefix_cache()

    def tell(self, command: TellExtensions) -> Told:
        """Tells extensions something, after the reset of the cache if it is one."""
        if isinstance(command, ResetPrefixCache):
            self.reset_prefix_cache(preempts=command.reset_running_requests)
        return Told(self._sides.told(command.sections))

    # -- a step ------------------------------------------------------------------

    def step(self) -> StepOutput:
        """Runs one step and returns all events since the last output.

        There must be work. With asynchronous scheduling, and in a pipeline, steps start
        before those ahead of them are awaited; the first calls only start one (cause
        `start`). A pipeline gets its next step before the output is returned. If all
        work awaits extensions or readiness gates, these are polled: the cause is
        `transfer`, or `WAIT` without anything to report. Such an output is empty
        and may be dropped.
        """
        in_flight, plan = self._in_flight, None
        if len(in_flight) <= self._lead:
            plan = self._schedule_and_start()
        if plan is not None and (self._is_pipeline or len(in_flight) <= self._lead):
            return self._emit("start", self.clock.now())
        if not in_flight:
            return self._poll()
        step = in_flight.popleft()
        result = step.started.result()
        executed_at = self.clock.now()
        if self.tap is not None:
            self.tap.computed(executed_at, step.plan, result)
        outcome = self._scheduler.update(result, executed_at)
        record = self._record(step, result, outcome, executed_at)
        output = self._emit("step", executed_at, record)
        if self._is_pipeline and len(in_flight) == self._lead:
            self._schedule_and_start()  # reported with the next output
        return output

    def _schedule_and_start(self) -> StepPlan | None:
        """Starts the next step; None if there is nothing to compute now."""
        started_at = self.clock.now()
        if (plan := self._scheduler.schedule(started_at)) is None:
            if self.tap is not None and (obstacle := self._scheduler.obstacle):
                self.tap.blocked(started_at, obstacle)
            return None
        scheduled_at = self.clock.now()
        if self.tap is not None:
            self.tap.planned(scheduled_at, plan)
        evictions = self._evictions.take_work()
        started = self._executor.start(plan)
        self._in_flight.append(
            StepInFlight(plan, started, started_at, scheduled_at, evictions)
        )
        return plan

    def _poll(self) -> StepOutput:
        plan = self._scheduler.plan_poll()
        result = self._executor.start(plan).result()
        now = self.clock.now()
        if self.tap is not None:
            self.tap.computed(now, plan, result)
        sections, _ = self._scheduler.update(result, now)
        if sections or self._scheduler.has_news:
            return self._emit("transfer", now)
        stats = self._scheduler.stats()
        return StepOutput(
            engine_index=self.facts.engine_index, at=now, cause=WAIT, stats=stats
        )

    def _record(
        self,
        step: StepInFlight,
        result: StepResult,
        outcome: tuple[Sections, VerifiedDrafts],
        executed_at: int,
    ) -> StepRecord:
        """Describes a finished step, whose result was there at `executed_at`, ns."""
        plan, (sections, verified) = step.plan, outcome
        waited_ns = max(0, self._last_executed - step.scheduled_at)
        self._last_executed = executed_at
        return StepRecord(
            step=plan.step,
            engine_index=self.facts.engine_index,
            started_at=step.started_at,
            scheduled_at=step.scheduled_at,
            executed_at=executed_at,
            ended_at=self.clock.now(),
            request_tokens=list(zip(plan.request_ids, plan.num_tokens, strict=True)),
            work=plan.work,
            sampled_requests=len(result.tokens),
            waited_ns=waited_ns,
            verified=verified,
            execution=result.execution,
            evictions=step.evictions,
            sections=sections,
        )

    # -- sleep -------------------------------------------------------------------

    @property
    def sleep_obstacle(self) -> str | None:
        """Why this engine can never sleep; None if it can."""
        return self._sides.sleep_obstacle

    @property
    def has_steps_in_flight(self) -> bool:
        return bool(self._in_flight)

    @property
    def has_running(self) -> bool:
        return self._scheduler.stats().running > 0

    def hold(self, mode: SleepMode) -> None:
        """Stops admission, and preempts, keeps or aborts the running requests."""
        self._scheduler.is_held = True
        if mode is SleepMode.KEEP:
            self._scheduler.preempt_all(self.clock.now(), PreemptionCause.SLEEP)
        elif mode is SleepMode.ABORT:
            self.finish(list(self._scheduler.requests), Aborted("sleep"))

    def resume(self) -> None:
        """Admits requests again."""
        self._scheduler.is_held = False

    def sleep(self, level: SleepLevel) -> None:
        """Clears the prefix cache and releases memory; nothing may be running."""
        self._scheduler.reset_prefix_cache()
        self._executor.sleep(level)
        self.sleep_level = level

    def wake_up(self) -> None:
        """Allocates what `sleep` released and admits requests again.

        Raises:
            ModelLoadError: The weights can no longer be loaded.
        """
        self._executor.wake_up()
        self.sleep_level = None
        self.resume()

    # -- output ------------------------------------------------------------------

    @property
    def stats(self) -> SchedulerStats:
        """The state now, with the residue that the last audit found."""
        stats = self._scheduler.stats()
        if self.sharing is not None:
            stats = self.sharing.add_stats(stats)
        if self.sleep_level is None:
            return stats
        return msgspec.structs.replace(stats, sleep_level=int(self.sleep_level))

    def report(self, cause: str) -> StepOutput:
        """Audits the state, and returns it with all events since the last output.

        These are returned once. Requests whose deadlines have passed are not ended:
        `expire` does that, and so does each step.
        """
        self._scheduler.audit()
        return self._emit(cause, self.clock.now(), clock=self.clock_pair())

    def clock_pair(self) -> ClockPair:
        """Reads wall clock and monotonic clock together."""
        return ClockPair(self.clock.wall(), self.clock.now())

    def close(self) -> None:
        self._executor.close()
        self._scheduler.close()

    def _emit(
        self,
        cause: str,
        at: int,
        record: StepRecord | None = None,
        *,
        clock: ClockPair | None = None,
    ) -> StepOutput:
        events = self._scheduler.take_events()
        return StepOutput(
            engine_index=self.facts.engine_index,
            at=at,
            cause=cause,
            stats=self.stats,
            record=record,
            events=events,
            clock=clock,
            sections=self._scheduler.take_news(),
        )
