"""The logger: turns hook payloads into traces and metrics for the export threads."""

import atexit
import time
from collections.abc import Iterable
from dataclasses import dataclass

from hookline.clock import Clock
from hookline.hookspecs import hookimpl
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    StateChanged,
    StepFinished,
)
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics.adapter_trails import AdapterTrails
from hookline_metrics.front_end_parts import ServerAddress
from hookline_otel.completions import Completions
from hookline_otel.ids import trace_number
from hookline_otel.log_sender import LogSender
from hookline_otel.metric_sender import MetricSender
from hookline_otel.metric_source import MetricSource
from hookline_otel.options import Semconv
from hookline_otel.origin import Origin
from hookline_otel.outcome import is_rejected
from hookline_otel.request_trace import RequestTrace
from hookline_otel.sender import INTERRUPT_SECONDS, Sender
from hookline_otel.span_sender import HostSpanSender, SpanSender
from hookline_otel.start_trace import StartTrace


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics and the thread that pushes them."""

    source: MetricSource
    sender: MetricSender


class OtelLogger:
    """Exports traces and metrics from the first engine's start to the last one's end.

    Attributes:
        spans: None if traces are not exported.
        metrics: None if metrics are not exported.
        logs: None unless the log is exported.
        clock: Clock for the times of exported data.
    """

    def __init__(
        self,
        spans: SpanSender | HostSpanSender | None,
        metrics: Metrics | None,
        logs: LogSender | None,
        *,
        model: str,
        semconv: Semconv,
        flush_seconds: float,
        clock: Clock,
    ) -> None:
        self.spans = spans
        self.metrics = metrics
        self.logs = logs
        self.clock = clock
        self._semconv = semconv
        self._flush_seconds = flush_seconds
        self._model = model
        self._models: dict[int, str] = {}
        self._offsets: dict[int, int] = {}
        self._trails = AdapterTrails()
        self._running: set[int] = set()
        self._server: ServerAddress | None = None

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        facts = started.facts
        self._models[facts.engine_index] = facts.model_name
        clock = started.clock
        self._offsets[facts.engine_index] = clock.wall - clock.monotonic
        self._running.add(facts.engine_index)
        if self.metrics is not None:
            self.metrics.source.engine_started(started)
        if self.spans is not None and facts.startup:
            self.spans.offer(StartTrace(facts))
        self._start()

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        if self.metrics is not None:
            self.metrics.source.recorder.engine_stopped(stopped)
        self._ended(stopped.engine_index)

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        if self.metrics is not None:
            self.metrics.source.recorder.engine_failed(failed)
        if failed.is_final:
            self._ended(failed.engine_index)

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        if self.metrics is not None:
            self.metrics.source.recorder.step_finished(step)
        self._take(step.engine_index, step.iteration)

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        if self.metrics is not None:
            self.metrics.source.recorder.state_changed(state)
        self._take(state.engine_index, state.iteration)

    @hookimpl
    def http_answered(self, answered: HttpAnswered) -> None:
        if self.metrics is not None:
            self.metrics.source.recorder.http_answered(answered)

    @hookimpl
    def front_end_changed(self, changed: FrontEndChanged) -> None:
        for part in changed.parts:
            if isinstance(part, ServerAddress):
                self._server = part
                if self.metrics is not None:
                    self.metrics.source.genai.serve_at(part)
        if self.metrics is not None:
            self.metrics.source.recorder.front_end_changed(changed)

    def close(self) -> None:
        """Sends pending data for at most `flush_seconds`, then ends the threads."""
        atexit.unregister(self.close)
        senders = self._senders
        for sender in senders:
            sender.request_stop()
        # Interrupting an export that hangs takes time as well.
        seconds = self._flush_seconds - len(senders) * INTERRUPT_SECONDS
        deadline = time.monotonic() + seconds
        for sender in senders:
            sender.close(max(0.0, deadline - time.monotonic()))

    def _start(self) -> None:
        for sender in self._senders:
            sender.start()
        atexit.register(self.close)  # a program may end without stopping its engine

    def _ended(self, engine_index: int) -> None:
        self._running.discard(engine_index)
        if not self._running:
            self.close()

    def _take(self, engine_index: int, iteration: IterationStats) -> None:
        if iteration.sections and self.spans is not None:
            self._trails.note(engine_index, iteration.sections)
        if not iteration.finished:
            return
        model = self._models.get(engine_index, self._model)
        if self.metrics is not None:
            self.metrics.source.genai.observe(iteration.finished, model)
        if self.spans is None:
            return
        origin = Origin(model, engine_index, self._server)
        for request in _over(iteration):
            trails = [
                self._trails.pop(engine_index, each.request_id) for each in request.all
            ]
            if trace_number(request.first.facts.trace_id):
                self.spans.offer(
                    RequestTrace(
                        request=request,
                        origin=origin,
                        semconv=self._semconv,
                        observed_at=self.clock.wall(),
                        trails=trails,
                        clock_offset=self._offsets.get(engine_index, 0),
                    )
                )

    @property
    def _senders(self) -> list[Sender]:
        metrics = None if self.metrics is None else self.metrics.sender
        every: tuple[Sender | None, ...] = (self.spans, metrics, self.logs)
        return [sender for sender in every if sender is not None]


def _over(iteration: IterationStats) -> Iterable[Completions]:
    """Yields the requests whose last completion has ended, and rejected ones."""
    for group in iteration.finished_groups:
        yield Completions(group.requests)
    for request in iteration.finished:
        if is_rejected(request):
            yield Completions((request,))
