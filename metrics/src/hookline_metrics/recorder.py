"""Accumulates hook payloads into the metrics of the catalogue."""

import threading
from dataclasses import dataclass
from itertools import chain

import msgspec

from hookline import hookimpl
from hookline.clock import NANOSECONDS, Clock, SystemClock
from hookline.config import EngineConfig
from hookline.payloads import (
    REMOVED,
    EngineFailed,
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    PageStats,
    StateChanged,
    StepFinished,
)
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline_metrics.accumulators import TraceAt
from hookline_metrics.adapters import ServedAdapters
from hookline_metrics.config import MetricsConfig
from hookline_metrics.front_end_parts import EngineHealth
from hookline_metrics.kept_sums import (
    KeptEngine,
    KeptRecorder,
    Process,
    go_on,
    kept_sums,
)
from hookline_metrics.label_guard import LabelGuards
from hookline_metrics.live import LiveEngine
from hookline_metrics.metric import Labels, Scope
from hookline_metrics.news import news_of
from hookline_metrics.readings import (
    FoldedValues,
    HttpLoad,
    PageDelay,
    StepReading,
)
from hookline_metrics.selection import Selection
from hookline_metrics.snapshot import Family, FamilyBuilder, merged
from hookline_metrics.sums import Sums, TrackedMetric
from hookline_registry import LaneStats


@dataclass(slots=True)
class _Engine:
    """One engine's accumulated metrics and live values.

    Attributes:
        sums: Its sums.
        live: Its live values.
        process: Its present process.
        ended: Requests of that process that have ended, without those that came from
            another process.
        has_left: Whether it was removed.
    """

    sums: Sums
    live: LiveEngine
    process: Process
    ended: int = 0
    has_left: bool = False


class Recorder:
    """Accumulates the metrics of one or several engines. Thread-safe.

    Payloads of an engine before its `engine_started` are ignored, as its labels are not
    known.
    """

    def __init__(
        self,
        config: EngineConfig | None = None,
        *,
        clock: Clock | None = None,
        native_schema: int | None = None,
    ) -> None:
        """Selects the metrics.

        Args:
            config: Metrics and features; the defaults if None.
            clock: The system's if None.
            native_schema: Resolution of exponential buckets, from -4 to 8; None counts
                none.

        Raises:
            ConfigError: the `MetricsConfig` is invalid.
        """
        config = config or EngineConfig()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._selection = Selection(config, native_schema=native_schema)
        self._guards = LabelGuards(MetricsConfig.of(config))
        self._engines: dict[int, _Engine] = {}
        self._former: dict[int, tuple[Sums, KeptEngine]] = {}
        self._front_end = Sums(
            self._selection,
            self._guards,
            scope=Scope.FRONT_END,
            since=self._wall_seconds(),
            labels=(config.model.served_name,),
        )
        self._front_end.keep_to(())  # until an engine says that it is behind one
        self._in_flight: set[tuple[str, str]] = set()
        self._builders = [
            (chosen, FamilyBuilder(chosen.metric, alias, self._selection))
            for chosen in self._selection.chosen
            for alias in chosen.aliases
        ]

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        """Creates the engine's series, so that they read 0 before the first event."""
        facts = started.facts
        labels = (facts.model_name, str(facts.engine_index))
        with self._lock:
            live = LiveEngine(started, self._clock.now())
            sums = self._known_sums(
                facts.engine_index, labels, facts.model.max_model_len
            )
            process = (started.clock.wall, started.clock.monotonic)
            engine = _Engine(sums, live, process, ended=-started.resubmitted)
            self._engines[facts.engine_index] = engine
            self._follow(engine, started)
            sums.keep_to(facts.tells)
            self._front_end.keep_to({*self._front_end.told, *facts.tells})
            sums.feed(facts)
            if started.restart_cause:
                sums.feed(started)

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        """Brings the engine's gauges to rest, or drops them if it was removed.

        Its counters stay.
        """
        self._end(stopped.engine_index)
        if stopped.reason == REMOVED:
            self._drop_gauges(stopped.engine_index)

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        """Brings the engine's gauges to rest; its counters stay."""
        self._end(failed.engine_index)

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        """Adds a step."""
        with self._lock:
            if (engine := self._engines.get(step.engine_index)) is None:
                return
            facts = engine.live.state.facts
            engine.sums.feed(StepReading(step.record, facts))
            self._add(engine, step.iteration)
            engine.live.step(step, self._clock.now())

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        """Adds requests that ended outside a step, and updates the state."""
        with self._lock:
            if (engine := self._engines.get(state.engine_index)) is None:
                return
            self._add(engine, state.iteration)
            engine.live.change(state, self._clock.now())
            for lane in state.lanes:
                self._front_end.feed(lane)

    @hookimpl
    def http_answered(self, answered: HttpAnswered) -> None:
        """Adds HTTP exchanges."""
        with self._lock:
            for exchange in answered.exchanges:
                self._front_end.feed(exchange)
            # A pair that is no longer listed has nothing in flight.
            load = dict.fromkeys(self._in_flight, 0) | dict(answered.in_flight)
            self._in_flight = {key for key, count in load.items() if count}
            self._front_end.feed(HttpLoad(load))
            for pages in answered.pages:
                self._front_end.feed(pages)

    @hookimpl
    def front_end_changed(self, changed: FrontEndChanged) -> None:
        """Adds the state of parts of the front end."""
        with self._lock:
            for part in changed.parts:
                if isinstance(part, EngineHealth):
                    self._judge(part)
                else:
                    self._front_end.feed(part)

    def page_asked(self, behind_seconds: float) -> None:
        """Notes how far its logger is behind, for the next snapshot."""
        with self._lock:
            self._front_end.feed(PageDelay(behind_seconds))

    def snapshot(self, *, with_native: bool = False) -> tuple[Family, ...]:
        """Returns all families of the chosen dialects, as of the same moment.

        Once an engine has begun, those that none tells are left out.
        `with_native` adds the exponential buckets to histograms, if they are counted.
        """
        with self._lock:
            self._feed_live()
            sources = self._sources()
            families: dict[str, list[Family]] = {}
            for chosen, builder in self._builders:
                source = sources[chosen.metric.name]
                if self._engines and not source:
                    continue  # no engine tells it
                family = builder.build(source, with_native=with_native)
                families.setdefault(builder.name, []).append(family)
        return tuple(merged(parts) for parts in families.values())

    def kept(self) -> bytes:
        """Returns what the recorder of another process needs to go on."""
        with self._lock:
            self._feed_live()
            engines = {
                index: KeptEngine(
                    kept_sums(each.sums), each.process, each.ended, each.live.correction
                )
                for index, each in self._engines.items()
            }
            for index, (_, former) in self._former.items():
                engines.setdefault(index, former)
            kept = KeptRecorder(engines, kept_sums(self._front_end), self._guards.kept)
        return msgspec.msgpack.encode(kept)

    def go_on(self, kept: bytes) -> None:
        """Goes on with what a recorder of the same configuration has kept.

        Call it before the first hook.

        Raises:
            msgspec.MsgspecError: It is none.
        """
        found = msgspec.msgpack.decode(kept, type=KeptRecorder)
        with self._lock:
            self._front_end.since = found.front_end.since
            go_on(self._front_end, found.front_end)
            # The lanes and the pages are this process's.
            self._front_end.restart_totals((LaneStats, PageStats))
            for index, engine in found.engines.items():
                sums = self._new_sums(
                    engine.sums.labels, engine.sums.max_model_len, engine.sums.since
                )
                go_on(sums, engine.sums)
                self._former[index] = (sums, engine)
            self._guards.go_on(found.guards)

    def _feed_live(self) -> None:
        now = self._clock.now()
        for engine in self._engines.values():
            if not engine.has_left:
                engine.sums.feed(engine.live.state_at(now))
                engine.sums.feed(engine.live.reading(now))
        states = [each.live.state.stats for each in self._engines.values()]
        self._front_end.feed(ServedAdapters.of(states, round(self._wall_seconds())))
        self._front_end.feed(FoldedValues(self._guards.folded))

    def _judge(self, health: EngineHealth) -> None:
        if (engine := self._engines.get(health.engine_index)) is None:
            return
        if health.stalled_seconds is not None and not engine.live.is_stalled:
            engine.sums.feed(health)
        engine.live.judge(health, self._clock.now())

    def _add(self, engine: _Engine, iteration: IterationStats) -> None:
        sums = engine.sums
        engine.ended -= iteration.migrated_in + iteration.resubmitted
        sums.feed(iteration)
        for part in chain(iteration.finished_groups, iteration.evictions):
            sums.feed(part)
        if iteration.sections:
            for news in news_of(iteration.sections):
                sums.feed(news)
        for begun in iteration.first_scheduled:
            sums.feed(begun, self._trace_at(begun))
        for first in iteration.first_tokens:
            sums.feed(first, self._trace_at(first))
        for request in iteration.finished:
            engine.ended += bool(request.request_id)  # else it has reached no engine
            sums.feed(request, self._trace_at(request.facts))

    def _trace_at(
        self, request: FirstScheduled | FirstToken | RequestFacts
    ) -> TraceAt | None:
        if not request.trace_id:
            return None
        return TraceAt(request.trace_id, request.span_id, self._wall_seconds())

    def _wall_seconds(self) -> float:
        return self._clock.wall() / NANOSECONDS

    def _sources(self) -> dict[str, list[tuple[Sums, TrackedMetric]]]:
        found: dict[str, list[tuple[Sums, TrackedMetric]]] = {}
        every = (
            *(each.sums for each in self._engines.values()),
            *(sums for sums, _ in self._former.values()),
            self._front_end,
        )
        for sums in every:
            for tracked in sums.metrics:
                found.setdefault(tracked.chosen.metric.name, []).append((sums, tracked))
        return {
            chosen.metric.name: found.get(chosen.metric.name, [])
            for chosen in self._selection.chosen
        }

    def _known_sums(self, index: int, labels: Labels, max_model_len: int) -> Sums:
        """Continues the sums of a restarted engine; another model starts new ones."""
        known = self._engines.get(index)
        same = (labels, max_model_len)
        if known and (known.sums.labels, known.sums.max_model_len) == same:
            self._settle(known)
            return known.sums
        if former := self._former.get(index):
            sums, _ = former
            if (sums.labels, sums.max_model_len) == same:
                return sums
        return self._new_sums(labels, max_model_len, self._wall_seconds())

    def _new_sums(self, labels: Labels, max_model_len: int, since: float) -> Sums:
        return Sums(
            self._selection,
            self._guards,
            scope=Scope.ENGINE,
            since=since,
            labels=labels,
            max_model_len=max_model_len,
        )

    def _follow(self, engine: _Engine, started: EngineStarted) -> None:
        """Goes on with the sums of a former process, if there are any.

        Ends that it has not kept were received by nobody.
        """
        former = self._former.pop(started.facts.engine_index, None)
        if former is None or former[0] is not engine.sums:
            return
        _, kept = former
        if kept.process != engine.process:  # it was replaced meanwhile
            engine.sums.restart()
            return
        lost = started.ended_before - kept.ended
        engine.live.go_on(kept.correction - lost)
        engine.ended = started.ended_before

    def _settle(self, engine: _Engine) -> None:
        """Takes the last totals of an engine that has ended, and drops its gauges."""
        if not engine.has_left:
            engine.sums.feed(engine.live.state_at(self._clock.now()))
            engine.sums.restart()

    def _drop_gauges(self, engine_index: int) -> None:
        with self._lock:
            if (engine := self._engines.get(engine_index)) is not None:
                self._settle(engine)
                engine.has_left = True

    def _end(self, engine_index: int) -> None:
        with self._lock:
            if (engine := self._engines.get(engine_index)) is not None:
                engine.live.mark_ended()
