"""Pushes all metrics once per interval, by a metric reader of the SDK."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline_otel.endpoint import Signal
from hookline_otel.outage_log import OutageLog
from hookline_otel.sender import Sender
from hookline_otel.tally import Counts
from hookline_otel.watch import why_failed

PREFIX = "hookline_otel"


class CatalogueExporter(MetricExporter):
    """Adds the catalogue to what the SDK has collected, and pushes both.

    The SDK offers no way to hand it histograms that are counted elsewhere.
    """

    def __init__(
        self,
        exporter: MetricExporter,
        catalogue: Callable[[], ScopeMetrics],
        outage: OutageLog,
    ) -> None:
        """Creates the exporter.

        Args:
            exporter: Pushes.
            catalogue: Returns all other metrics.
            outage: Logs failures.
        """
        super().__init__()
        self._exporter = exporter
        self._catalogue = catalogue
        self._outage = outage
        self._lock = threading.Lock()
        self._failed = 0

    @property
    def failed(self) -> int:
        """Number of pushes that failed."""
        with self._lock:
            return self._failed

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any
    ) -> MetricExportResult:
        done = MetricExportResult.SUCCESS
        why = why_failed(
            lambda: self._exporter.export(self._whole(metrics_data), timeout_millis),
            done,
        )
        if why is None:
            self._outage.arrived()
            return done
        with self._lock:
            self._failed += 1
        self._outage.failed(why, f"{self.failed} pushes")
        return MetricExportResult.FAILURE

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        self._exporter.shutdown(timeout_millis)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _whole(self, collected: MetricsData) -> MetricsData:
        [ours] = collected.resource_metrics
        counted = self._catalogue()
        scopes: list[ScopeMetrics] = []
        metrics = [*counted.metrics]
        for each in ours.scope_metrics:
            if each.scope.name == counted.scope.name:  # occurs once in a push
                metrics += each.metrics
            else:  # what the SDK counts of itself, if it is asked to
                scopes.append(each)
        scopes.append(ScopeMetrics(counted.scope, metrics, counted.schema_url))
        return MetricsData([ResourceMetrics(ours.resource, scopes, ours.schema_url)])


class MetricSender(Sender):
    """Pushes cumulative metrics; a failed push is made good by the next one."""

    def __init__(
        self,
        exporters: list[CatalogueExporter],
        resource: Resource,
        scope: InstrumentationScope,
        *,
        interval_seconds: float,
        counts: dict[str, Callable[[], Counts]],
    ) -> None:
        """Creates the sender without starting it.

        Args:
            exporters: What pushes.
            resource: Describes the server.
            scope: The plugin's.
            interval_seconds: Seconds between two pushes.
            counts: What became of the parts of other signals, by their name.
        """
        super().__init__(Signal.METRICS)
        self._exporters = exporters
        self._resource = resource
        self._scope = scope
        self._interval_seconds = interval_seconds
        self._counts = counts
        self._provider: MeterProvider | None = None

    @property
    def failed(self) -> int:
        """Number of pushes that failed."""
        return self._exporters[0].failed

    def _begin(self) -> object:
        assert self._provider is not None
        return self._provider.force_flush()  # the first push, which may take its time

    def _open(self) -> Callable[[], object]:
        readers = [
            PeriodicExportingMetricReader(each, self._interval_seconds * 1000)
            for each in self._exporters
        ]
        self._provider = MeterProvider(
            readers, resource=self._resource, shutdown_on_exit=False
        )
        self._observe(
            "failed_metric_exports", "exports", "Failed pushes.", lambda: self.failed
        )
        for name, counts in self._counts.items():
            self._observe_counts(name, counts)
        return self._provider.shutdown

    def _observe_counts(self, name: str, counts: Callable[[], Counts]) -> None:
        what, unit = name.replace("_", " ").capitalize(), name.rpartition("_")[2]
        self._observe(
            f"exported_{name}", unit, f"{what} exported.", lambda: counts().exported
        )
        self._observe(
            f"failed_{name}",
            unit,
            f"{what} whose export failed.",
            lambda: counts().failed,
        )
        self._observe(
            f"dropped_{name}",
            unit,
            f"{what} dropped before export.",
            lambda: counts().dropped,
        )

    def _observe(
        self, name: str, unit: str, text: str, read: Callable[[], int]
    ) -> None:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(float(read()))]

        assert self._provider is not None
        scope = self._scope
        meter = self._provider.get_meter(scope.name, scope.version, scope.schema_url)
        meter.create_observable_counter(
            f"{PREFIX}_{name}", [observe], f"{{{unit}}}", text
        )

    def _drop(self) -> None:
        """The next push would have everything that this one has not."""

    def _interrupt(self) -> None:
        for exporter in self._exporters:
            exporter.shutdown()
