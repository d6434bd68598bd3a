"""All pushed metrics: the catalogue, GenAI histograms and the exporter's own counts."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.payloads import EngineStarted
from hookline_metrics import OWN_DIALECT, Family, Kind, Recorder, Sample
from hookline_metrics.config import MetricsConfig
from hookline_metrics.keeper import Keeper
from hookline_otel.genai_metrics import GenAiMetrics, KeptGenAi
from hookline_otel.log_item import ScopedRecord
from hookline_otel.otlp_metrics import Window, metrics_data
from hookline_otel.queue_sender import Counts, QueueSender


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
        spans: QueueSender[bytes] | None,
        logs: QueueSender[ScopedRecord] | None,
        clock: Clock,
        kept: Path | None = None,
    ) -> None:
        """Begins with what another process has kept in the file, if there is one."""
        self.recorder = make_recorder(config)
        self.genai = GenAiMetrics(clock)
        self._started_at = clock.wall()
        self._has_engine = False
        self._resource = resource
        self._scope = scope
        self._spans = spans
        self._logs = logs
        self._clock = clock
        self._keeper = None if kept is None else Keeper(kept, self)

    def kept(self) -> bytes:
        """Returns what the source of another process needs to go on."""
        return msgspec.msgpack.encode((self.recorder.kept(), self.genai.kept()))

    def go_on(self, kept: bytes) -> None:
        """Goes on with what another source has kept."""
        recorder, genai = msgspec.msgpack.decode(kept, type=tuple[bytes, KeptGenAi])
        self.recorder.go_on(recorder)
        self.genai.go_on(genai)

    def engine_started(self, started: EngineStarted) -> None:
        """Records the start; cumulative metrics begin with the first engine's."""
        if not self._has_engine:
            self._has_engine = True
            self._started_at = started.clock.wall
        self.recorder.engine_started(started)

    def encode(self, failed_pushes: int) -> bytes:
        """Returns a snapshot of all metrics, encoded for the push."""
        data = metrics_data(
            (
                *self.recorder.snapshot(),
                *self.genai.families(),
                *self._own_families(failed_pushes),
            ),
            self._resource,
            self._scope,
            Window(self._started_at, self._clock.wall()),
        )
        if self._keeper is not None:  # nothing falls below what was pushed
            self._keeper.keep()
        return encode_metrics(data).SerializeToString()

    def _own_families(self, failed_pushes: int) -> Iterable[Family]:
        yield _counter(
            "failed_metric_exports", "exports", "Failed pushes.", failed_pushes
        )
        if self._spans is not None:
            yield from _counters("spans", "spans", "Spans", self._spans.counts)
        if self._logs is not None:
            counts = self._logs.counts
            yield from _counters("log_records", "records", "Log records", counts)


def make_recorder(config: EngineConfig) -> Recorder:
    """Returns a recorder of Hookline's own names, whichever dialects are configured."""
    metrics = replace(MetricsConfig.of(config), dialects=(OWN_DIALECT,))
    sections = {**config.sections, MetricsConfig.key: metrics}
    return Recorder(replace(config, sections=sections))


def _counters(name: str, unit: str, what: str, counts: Counts) -> Iterable[Family]:
    exported, failed, dropped = counts.exported, counts.failed, counts.dropped
    yield _counter(f"exported_{name}", unit, f"{what} exported.", exported)
    yield _counter(f"failed_{name}", unit, f"{what} whose export failed.", failed)
    yield _counter(f"dropped_{name}", unit, f"{what} dropped before export.", dropped)


def _counter(name: str, unit: str, text: str, value: int) -> Family:
    sample = Sample((), float(value))
    return Family(f"hookline_otel_{name}", Kind.COUNTER, unit, text, (), (sample,))
