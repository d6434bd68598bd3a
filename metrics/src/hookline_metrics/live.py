"""Values computed at scrape time: rates, ages, saturation."""

from collections.abc import Iterable

import msgspec

from hookline.clock import NANOSECONDS
from hookline.payloads import EngineStarted, StateChanged, StepFinished
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.front_end_parts import EngineHealth
from hookline_metrics.hit_rate import HitRateWindow
from hookline_metrics.rate_window import RateWindow
from hookline_metrics.readings import LiveReading, StateReading
from hookline_metrics.saturation import PARTS, CapacityReading, Saturation
from hookline_metrics.saturation.bound import BOUNDS
from hookline_metrics.slo import judge
from hookline_metrics.speculation import SpeculationReading, SpeculationYield

RATE_SECONDS = 10.0
SLO_SECONDS = 60.0


class LiveEngine:
    """Tracks one engine.

    Attributes:
        state: The most recent state; at rest after the engine has stopped.
        is_stalled: Whether the front end has found the engine stalled.
    """

    def __init__(self, started: EngineStarted, now: int) -> None:
        """Starts with an idle engine; `now` is on this process's clock."""
        facts = started.facts
        self._facts = facts
        self.state = StateReading(
            SchedulerStats(kv_blocks=facts.model.num_kv_blocks),
            started.clock.monotonic,
            facts,
        )
        self._saturation = Saturation(facts)
        self._generated = RateWindow(RATE_SECONDS)
        self._prompted = RateWindow(RATE_SECONDS)
        self._met = RateWindow(SLO_SECONDS)
        self._missed = RateWindow(SLO_SECONDS)
        self._hits = HitRateWindow()
        self._speculation = SpeculationYield()
        self._stepped_at = self._heard_at = now
        self._is_up = True
        self._health: EngineHealth | None = None
        self._judged_at = now
        # A new process does not count what it gets again; one that ran before this
        # recorder began has counted what had ended.
        self._correction = -started.ended_before

    @property
    def is_stalled(self) -> bool:
        return self._health is not None

    @property
    def correction(self) -> int:
        """What is added to the number of requests that the engine says it received."""
        return self._correction

    def go_on(self, correction: int) -> None:
        """Goes on with what another process has known of the same engine process."""
        self._correction = correction

    def judge(self, health: EngineHealth, now: int) -> None:
        """Takes the front end's verdict on the engine."""
        self._health = health if health.stalled_seconds is not None else None
        self._judged_at = now

    def state_at(self, now: int) -> StateReading:
        """Returns the state with all ages as of `now`.

        While the engine is stalled, requests that it has not confirmed wait, too. What
        it has got again from the process before it was counted there.
        """
        state, health = self.state, self._health
        at = state.at + now - self._heard_at if self._is_up else state.at
        stats = state.stats
        if self._correction:
            received = max(0, stats.totals.received + self._correction)
            totals = msgspec.structs.replace(stats.totals, received=received)
            stats = msgspec.structs.replace(stats, totals=totals)
        if health is not None and health.unheard:
            age = round(health.oldest_unheard_seconds * NANOSECONDS)
            oldest = at - age - (now - self._judged_at)
            if stats.oldest_waiting_at is not None:
                oldest = min(oldest, stats.oldest_waiting_at)
            stats = msgspec.structs.replace(
                stats,
                waiting=stats.waiting + health.unheard,
                oldest_waiting_at=oldest,
            )
        return StateReading(stats, at, state.facts)

    def step(self, step: StepFinished, now: int) -> None:
        self._stepped_at = self._heard_at = now
        at = step.record.ended_at
        self._saturation.step(step)
        self._speculation.step(step.record)
        self._generated.add(at, step.iteration.generation_tokens)
        self._prompted.add(at, step.iteration.prompt_tokens)
        self._judge(step.iteration.finished, at)
        self._set(step, at)

    def change(self, state: StateChanged, now: int) -> None:
        self._heard_at = now
        self._saturation.state(state)
        iteration, at = state.iteration, max(state.at, self.state.at)
        self._correction += iteration.received_correction
        if iteration.generation_tokens:
            self._generated.add(at, iteration.generation_tokens)
        if iteration.prompt_tokens:
            self._prompted.add(at, iteration.prompt_tokens)
        self._judge(iteration.finished, at)
        self._set(state, state.at)

    def mark_ended(self) -> None:
        """Handles the engine's end: all gauges of requests and blocks become 0."""
        self._is_up = False
        self._health = None
        self.state = self._idle_state(self.state)

    def reading(self, now: int) -> LiveReading:
        """Returns all values as of `now`, on this process's clock."""
        at = self.state.at
        met, missed = self._met.total(at), self._missed.total(at)
        is_quiet = not self._is_up or self.is_stalled or not self.state.stats.running
        return LiveReading(
            generation_rate=0.0 if is_quiet else self._generated.rate(at),
            prompt_rate=0.0 if is_quiet else self._prompted.rate(at),
            hit_rate=self._hits.rate or 0.0,
            saturation=self._saturation.value() if self._is_up else 0.0,
            saturation_parts=self._saturation.parts()
            if self._is_up
            else dict.fromkeys(PARTS, 0.0),
            bounds=self._saturation.bounds()
            if self._is_up
            else dict.fromkeys(BOUNDS, 0.0),
            capacity=self._saturation.capacity() if self._is_up else CapacityReading(),
            slo_attainment=met / (met + missed) if met + missed else 1.0,
            goodput=self._met.rate(at) if self._is_up else 0.0,
            last_step_age=(now - self._stepped_at) / NANOSECONDS,
            snapshot_age=(now - self._heard_at) / NANOSECONDS,
            is_up=self._is_up and not self.is_stalled,
            stall_seconds=self._stall_seconds(now),
            speculation=self._speculation.reading(at)
            if self._is_up
            else SpeculationReading(),
        )

    def _stall_seconds(self, now: int) -> float | None:
        if self._health is None or self._health.stalled_seconds is None:
            return None
        return self._health.stalled_seconds + (now - self._judged_at) / NANOSECONDS

    def _set(self, payload: StepFinished | StateChanged, at: int) -> None:
        self._hits.observe(payload.scheduler.totals.prefix_cache)
        if at < self.state.at:
            return  # an older state, overtaken by a step
        state = StateReading(payload.scheduler, at, self._facts)
        self.state = state if self._is_up else self._idle_state(state)

    def _idle_state(self, state: StateReading) -> StateReading:
        return StateReading(state.stats.at_rest(), state.at, self._facts)

    def _judge(self, finished: Iterable[FinishedRequest], at: int) -> None:
        for request in finished:
            if (misses := judge(request)) is not None:
                window = self._missed if misses else self._met
                window.add(at, 1)
