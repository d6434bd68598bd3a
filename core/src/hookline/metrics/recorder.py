"""Turns hook payloads into sums, one loop over the catalogue for each part of them."""

import threading
from dataclasses import dataclass
from itertools import product

import msgspec

from hookline.events import StepRecord
from hookline.metrics.accumulators import (
    Accumulator,
    Counter,
    Gauge,
    Histogram,
    RunningTotal,
)
from hookline.metrics.buckets import bounds_of
from hookline.metrics.catalogue import CATALOGUE, DIALECTS
from hookline.metrics.metric import Kind, Labels, Metric
from hookline.metrics.readings import RUNNING_TOTALS, StateReading
from hookline.metrics.snapshot import Family, family_of
from hookline.payloads import (
    EngineFacts,
    EngineFailed,
    EngineStarted,
    EngineStopped,
    StateChanged,
    StepFinished,
)
from hookline.stats import (
    FinishedGroup,
    FinishedRequest,
    IterationStats,
    SchedulerStats,
)
from hookline_registry import LaneStats

_PARTS: tuple[type, ...] = (
    EngineFacts,
    StateReading,
    StepRecord,
    IterationStats,
    FinishedRequest,
    FinishedGroup,
    LaneStats,
)


@dataclass(slots=True)
class _Engine:
    """What is known of one engine.

    Attributes:
        labels: `model_name` and `engine` of its series.
        state: The newest.
        is_over: Whether it stopped or failed: its gauges then stay at rest.
    """

    labels: Labels
    state: StateReading
    is_over: bool = False


class Recorder:
    """Sums of one or several engines; every method may be called from any thread.

    An engine is known from its `engine_started` on. What comes before that has no
    labels yet and is not counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: dict[int, _Engine] = {}
        self._series: tuple[tuple[Metric, Accumulator], ...] = tuple(
            (metric, _accumulator(metric)) for metric in CATALOGUE
        )
        # Resolved once: a step touches only the metrics that read what it brings.
        self._readers = {
            part: [
                (metric.value.read, accumulator.update)
                for metric, accumulator in self._series
                if metric.value.kind is part
            ]
            for part in _PARTS
        }

    def engine_started(self, started: EngineStarted) -> None:
        """Makes the engine's series, so that a 0 is seen before the first event."""
        facts = started.facts
        labels = (facts.model_name, str(facts.engine_index))
        state = StateReading(
            SchedulerStats(kv_blocks=facts.num_kv_blocks), started.clock.monotonic
        )
        with self._lock:
            self._forget(facts.engine_index)
            self._engines[facts.engine_index] = _Engine(labels, state)
            for metric, accumulator in self._series:
                _create(metric, accumulator, labels, facts.max_model_len)
            self._feed(labels, facts)
            self._feed(labels, state)

    def engine_stopped(self, stopped: EngineStopped) -> None:
        """Brings the engine's gauges to rest; its counters stay."""
        self._end(stopped.engine_index)

    def engine_failed(self, failed: EngineFailed) -> None:
        """Brings the engine's gauges to rest; its counters stay."""
        self._end(failed.engine_index)

    def step_finished(self, step: StepFinished) -> None:
        """Adds what a step brought."""
        with self._lock:
            if (engine := self._engines.get(step.engine_index)) is None:
                return
            self._feed(engine.labels, step.record)
            self._add(engine, step.iteration)
            self._set(engine, StateReading(step.scheduler, step.record.ended_at))

    def state_changed(self, state: StateChanged) -> None:
        """Adds what ended outside a step, and takes over the state as it is now."""
        with self._lock:
            if (engine := self._engines.get(state.engine_index)) is None:
                return
            self._add(engine, state.iteration)
            self._set(engine, StateReading(state.scheduler, state.at))
            for lane in state.lanes:
                self._feed(engine.labels, lane)

    def snapshot(self, *dialects: str) -> tuple[Family, ...]:
        """All families of the dialects, all as of the same moment.

        Raises:
            ValueError: A dialect is not in the catalogue.
        """
        if unknown := set(dialects) - set(DIALECTS):
            raise ValueError(f"unknown dialects {sorted(unknown)}, not in {DIALECTS}")
        with self._lock:
            return tuple(
                family_of(metric, alias, accumulator)
                for dialect in dialects
                for metric, accumulator in self._series
                for alias in metric.aliases(dialect)
            )

    def _feed(self, labels: Labels, part: object) -> None:
        for read, update in self._readers[type(part)]:
            for extra, value, count in read(part):
                update(labels + extra, value, count)

    def _add(self, engine: _Engine, iteration: IterationStats) -> None:
        self._feed(engine.labels, iteration)
        for request in iteration.finished:
            self._feed(engine.labels, request)
        for group in iteration.finished_groups:
            self._feed(engine.labels, group)

    def _set(self, engine: _Engine, state: StateReading) -> None:
        engine.state = _at_rest(state) if engine.is_over else state
        self._feed(engine.labels, engine.state)

    def _end(self, engine_index: int) -> None:
        with self._lock:
            if (engine := self._engines.get(engine_index)) is None:
                return
            engine.is_over = True
            self._set(engine, engine.state)

    def _forget(self, engine_index: int) -> None:
        """Makes way for a restart: gauges go, totals will count from 0 again."""
        if (engine := self._engines.get(engine_index)) is None:
            return
        for metric, accumulator in self._series:
            if isinstance(accumulator, Gauge):
                accumulator.forget(engine.labels)
            # Lanes live in the front end and go on counting.
            elif (
                isinstance(accumulator, RunningTotal)
                and metric.value.kind is StateReading
            ):
                accumulator.restart(engine.labels)


def _accumulator(metric: Metric) -> Accumulator:
    if metric.kind is Kind.GAUGE:
        return Gauge()
    if metric.kind is Kind.HISTOGRAM:
        return Histogram()
    return RunningTotal() if metric.value.kind in RUNNING_TOTALS else Counter()


def _create(
    metric: Metric, accumulator: Accumulator, labels: Labels, max_model_len: int
) -> None:
    for extra in product(*(label.values for label in metric.labels)):
        if not isinstance(accumulator, Histogram):
            accumulator.create(labels + extra)
        elif metric.buckets is not None:
            accumulator.create(labels + extra, bounds_of(metric.buckets, max_model_len))


def _at_rest(state: StateReading) -> StateReading:
    """The same totals and residue with nothing running, waiting or held."""
    stats = msgspec.structs.replace(
        state.stats,
        running=0,
        waiting=0,
        waiting_for_grammar=0,
        waiting_for_remote_kv=0,
        kv_blocks_used=0,
        kv_blocks_cached=0,
        oldest_waiting_at=None,
        oldest_running_at=None,
    )
    return StateReading(stats, state.at)
