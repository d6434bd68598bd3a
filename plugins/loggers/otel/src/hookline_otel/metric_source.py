"""All pushed metrics: the catalogue, GenAI histograms and the exporter's own counts."""

from collections.abc import Iterable
from dataclasses import replace

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.metrics import OWN_DIALECT, Family, Kind, Recorder, Sample
from hookline.payloads import EngineStarted
from hookline_otel.genai_metrics import GenAiMetrics
from hookline_otel.otlp_metrics import Window, metrics_data
from hookline_otel.span_sender import SpanCounts, SpanSender


class MetricSource:
    """Metrics accumulated from the hooks and read by the export thread.

    Attributes:
        recorder: The metrics catalogue.
        genai: The histograms of the GenAI conventions.
    """

    def __init__(
        self,
        config: EngineConfig,
        resource: Resource,
        scope: InstrumentationScope,
        *,
        spans: SpanSender | None,
        clock: Clock,
    ) -> None:
        self.recorder = make_recorder(config)
        self.genai = GenAiMetrics(clock)
        self._started_at = clock.wall()
        self._has_engine = False
        self._resource = resource
        self._scope = scope
        self._spans = spans
        self._clock = clock

    def engine_started(self, started: EngineStarted) -> None:
        """Records the start; cumulative metrics begin with the first engine's."""
        if not self._has_engine:
            self._has_engine = True
            self._started_at = started.clock.wall
        self.recorder.engine_started(started)

    def encode(self, failed_pushes: int) -> bytes:
        """Returns a snapshot of all metrics, encoded for the push."""
        counts = self._spans.counts if self._spans is not None else None
        data = metrics_data(
            (
                *self.recorder.snapshot(),
                *self.genai.families(),
                *_own_families(counts, failed_pushes),
            ),
            self._resource,
            self._scope,
            Window(self._started_at, self._clock.wall()),
        )
        return encode_metrics(data).SerializeToString()


def make_recorder(config: EngineConfig) -> Recorder:
    """Returns a recorder of Hookline's own names, whichever dialects are configured."""
    metrics = replace(config.observers.metrics, dialects=(OWN_DIALECT,))
    observers = replace(config.observers, metrics=metrics)
    return Recorder(replace(config, observers=observers))


def _own_families(counts: SpanCounts | None, failed_pushes: int) -> Iterable[Family]:
    yield _counter("failed_metric_exports", "exports", "Failed pushes.", failed_pushes)
    if counts is None:
        return
    yield _counter("exported_spans", "spans", "Exported spans.", counts.exported)
    yield _counter("failed_spans", "spans", "Spans whose export failed.", counts.failed)
    yield _counter(
        "dropped_spans", "spans", "Spans dropped before export.", counts.dropped
    )


def _counter(name: str, unit: str, text: str, value: int) -> Family:
    sample = Sample((), float(value))
    return Family(f"hookline_otel_{name}", Kind.COUNTER, unit, text, (), (sample,))
