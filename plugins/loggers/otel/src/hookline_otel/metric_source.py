"""Metrics that the SDK does not count: the catalogue and GenAI histograms."""

import os
from dataclasses import replace
from pathlib import Path

import msgspec
from opentelemetry.sdk.metrics.export import ScopeMetrics
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.payloads import EngineStarted
from hookline_metrics import OWN_DIALECT, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.keeper import Keeper
from hookline_otel.genai_metrics import GenAiMetrics, KeptGenAi
from hookline_otel.otlp_metrics import Window, scope_metrics
from hookline_otel.variables import has_exemplars


class MetricSource:
    """Metrics accumulated from the hooks and read by the export thread.

    Attributes:
        recorder: The metrics catalogue.
        genai: The histograms of the GenAI conventions.
    """

    def __init__(
        self,
        config: EngineConfig,
        scope: InstrumentationScope,
        *,
        clock: Clock,
        kept: Path | None = None,
    ) -> None:
        """Begins with what another process has kept in the file, if there is one."""
        self.recorder = make_recorder(config)
        self.genai = GenAiMetrics(clock)
        self._started_at = clock.wall()
        self._has_engine = False
        self._scope = scope
        self._has_exemplars = has_exemplars(os.environ)
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

    def collect(self) -> ScopeMetrics:
        """Returns a snapshot of all metrics."""
        metrics = scope_metrics(
            (*self.recorder.snapshot(), *self.genai.families()),
            self._scope,
            Window(self._started_at, self._clock.wall()),
            has_exemplars=self._has_exemplars,
        )
        if self._keeper is not None:  # nothing falls below what was pushed
            self._keeper.keep()
        return metrics


def make_recorder(config: EngineConfig) -> Recorder:
    """Returns a recorder of Hookline's own names, whichever dialects are configured."""
    metrics = replace(MetricsConfig.of(config), dialects=(OWN_DIALECT,))
    sections = {**config.sections, MetricsConfig.key: metrics}
    return Recorder(replace(config, sections=sections))
