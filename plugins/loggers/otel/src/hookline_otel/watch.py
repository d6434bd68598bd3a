"""Exporters that count what they export, and warn rarely when that fails."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from hookline_otel.outage_log import OutageLog
from hookline_otel.said import listening
from hookline_otel.tally import Tally
from hookline_registry import Failure, isolate

R = TypeVar("R")
NO_REASON = "the exporter gave no reason"


def why_failed(export: Callable[[], R], success: R) -> str | None:
    """Exports; returns why that failed, or None. Never raises."""
    with listening() as lines:
        result = isolate(export)
    if isinstance(result, Failure):
        return result.summary
    if result is success:
        return None
    return lines[0] if lines else NO_REASON  # later ones only say that it gives up


class Watch:
    """Watches the export of spans or of log records."""

    def __init__(self, parts: str, tally: Tally, outage: OutageLog) -> None:
        """Watches.

        Args:
            parts: What the parts are called, such as `spans`.
            tally: Counts them.
            outage: Logs failures.
        """
        self.tally = tally
        self._parts = parts
        self._outage = outage

    def export(self, parts: int, export: Callable[[], R], success: R) -> bool:
        """Exports parts and counts them."""
        why = why_failed(export, success)
        if why is not None:
            self.failed(parts, why)
            return False
        self.tally.ended(parts, is_exported=True)
        self._outage.arrived()
        return True

    def failed(self, parts: int, why: str) -> None:
        """Counts admitted parts that could not be made or exported."""
        self.tally.ended(parts, is_exported=False)
        self._outage.failed(why, self._lost)

    def close(self) -> None:
        """Drops what was not exported in time."""
        if self.tally.close():
            self._outage.failed("shutdown timed out", self._lost)

    @property
    def _lost(self) -> str:
        return f"{self.tally.counts.lost} {self._parts}"


class WatchedSpans(SpanExporter):
    """Exports spans by another exporter."""

    def __init__(self, exporter: SpanExporter, watch: Watch) -> None:
        self._exporter = exporter
        self._watch = watch

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        done = SpanExportResult.SUCCESS
        made = self._watch.export(
            len(spans), lambda: self._exporter.export(spans), done
        )
        return done if made else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class WatchedRecords(LogRecordExporter):
    """Exports log records by another exporter."""

    def __init__(self, exporter: LogRecordExporter, watch: Watch) -> None:
        self._exporter = exporter
        self._watch = watch

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        done = LogRecordExportResult.SUCCESS
        made = self._watch.export(
            len(batch), lambda: self._exporter.export(batch), done
        )
        return done if made else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)
