"""Turns hook payloads into sums, one loop over the catalogue for each part of them."""

import threading
from dataclasses import dataclass

from hookline.clock import NANOSECONDS, Clock, SystemClock
from hookline.config import EngineConfig
from hookline.metrics.accumulators import TraceAt
from hookline.metrics.label_guard import LabelGuards
from hookline.metrics.live import LiveEngine
from hookline.metrics.metric import Labels, Scope
from hookline.metrics.readings import FoldedValues, HttpLoad, StepReading
from hookline.metrics.selection import Selection
from hookline.metrics.snapshot import Family, FamilyTeller, merged
from hookline.metrics.sums import Sums, Told
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    HttpAnswered,
    StateChanged,
    StepFinished,
)
from hookline.stats import IterationStats


@dataclass(slots=True)
class _Engine:
    """One engine's sums, and what is followed of it."""

    sums: Sums
    live: LiveEngine


class Recorder:
    """Sums of one or several engines; every method may be called from any thread.

    An engine is known from its `engine_started` on. What comes before that has no
    labels yet and is not counted.
    """

    def __init__(
        self, config: EngineConfig | None = None, *, clock: Clock | None = None
    ) -> None:
        """Chooses the metrics.

        Raises:
            ConfigError: `config.observers.metrics` asks for what cannot be.
        """
        config = config or EngineConfig()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._selection = Selection(config)
        self._guards = LabelGuards(config.observers.metrics)
        self._engines: dict[int, _Engine] = {}
        self._front_end = Sums(self._selection, self._guards, scope=Scope.FRONT_END)
        self._in_flight: set[tuple[str, str]] = set()
        self._tellers = [
            (chosen, FamilyTeller(chosen.metric, alias, self._selection))
            for chosen in self._selection.chosen
            for alias in chosen.aliases
        ]

    def engine_started(self, started: EngineStarted) -> None:
        """Makes the engine's series, so that a 0 is seen before the first event."""
        facts = started.facts
        labels = (facts.model_name, str(facts.engine_index))
        with self._lock:
            live = LiveEngine(started, self._clock.now())
            sums = self._known_sums(facts.engine_index, labels, facts.max_model_len)
            self._engines[facts.engine_index] = _Engine(sums, live)
            sums.feed(facts)

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
            facts = engine.live.state.facts
            engine.sums.feed(StepReading(step.record, facts))
            self._add(engine.sums, step.iteration)
            engine.live.step(step, self._clock.now())

    def state_changed(self, state: StateChanged) -> None:
        """Adds what ended outside a step, and takes over the state as it is now."""
        with self._lock:
            if (engine := self._engines.get(state.engine_index)) is None:
                return
            self._add(engine.sums, state.iteration)
            engine.live.change(state, self._clock.now())
            for lane in state.lanes:
                self._front_end.feed(lane)

    def http_answered(self, answered: HttpAnswered) -> None:
        """Adds what a server has answered."""
        with self._lock:
            for exchange in answered.exchanges:
                self._front_end.feed(exchange)
            # A pair that is not named any more has nothing in flight.
            load = dict.fromkeys(self._in_flight, 0) | dict(answered.in_flight)
            self._in_flight = {key for key, count in load.items() if count}
            self._front_end.feed(HttpLoad(load))

    def snapshot(self) -> tuple[Family, ...]:
        """All families of the chosen dialects, all as of the same moment."""
        with self._lock:
            now = self._clock.now()
            for engine in self._engines.values():
                engine.sums.feed(engine.live.state)
                engine.sums.feed(engine.live.reading(now))
            self._front_end.feed(FoldedValues(self._guards.folded))
            sources = self._sources()
            families: dict[str, list[Family]] = {}
            for chosen, teller in self._tellers:
                family = teller.tell(sources[chosen.metric.name])
                families.setdefault(teller.name, []).append(family)
        return tuple(merged(parts) for parts in families.values())

    def _add(self, sums: Sums, iteration: IterationStats) -> None:
        sums.feed(iteration)
        for parts in (iteration.finished_groups, iteration.evictions):
            for part in parts:
                sums.feed(part)
        for first in iteration.first_tokens:
            sums.feed(first, self._trace_at(first.trace_id))
        for request in iteration.finished:
            sums.feed(request, self._trace_at(request.facts.trace_id))

    def _trace_at(self, trace_id: str) -> TraceAt | None:
        return (trace_id, self._clock.wall() / NANOSECONDS) if trace_id else None

    def _sources(self) -> dict[str, list[tuple[Sums, Told]]]:
        found: dict[str, list[tuple[Sums, Told]]] = {}
        every = (*(each.sums for each in self._engines.values()), self._front_end)
        for sums in every:
            for told in sums.told:
                found.setdefault(told.chosen.metric.name, []).append((sums, told))
        return {
            chosen.metric.name: found.get(chosen.metric.name, [])
            for chosen in self._selection.chosen
        }

    def _known_sums(self, index: int, labels: Labels, max_model_len: int) -> Sums:
        """The sums of an engine that starts again go on; another model's are new."""
        known = self._engines.get(index)
        same = (labels, max_model_len)
        if known and (known.sums.labels, known.sums.max_model_len) == same:
            known.sums.feed(known.live.state)
            known.sums.restart()
            return known.sums
        return Sums(
            self._selection,
            self._guards,
            scope=Scope.ENGINE,
            labels=labels,
            max_model_len=max_model_len,
        )

    def _end(self, engine_index: int) -> None:
        with self._lock:
            if (engine := self._engines.get(engine_index)) is not None:
                engine.live.end()
