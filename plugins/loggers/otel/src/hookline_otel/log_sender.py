"""Sends records of the server's log by a logger provider of the SDK."""

import logging
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from hookline_otel.attributes import valid
from hookline_otel.batching import Batching
from hookline_otel.endpoint import Signal
from hookline_otel.ids import span_number, trace_number
from hookline_otel.sender import Sender
from hookline_otel.tally import Counts
from hookline_otel.watch import Watch, WatchedRecords
from hookline_processes.log_fields import FieldValue
from hookline_processes.logged_record import LoggedRecord
from hookline_registry import Failure, isolate

_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.DEBUG, SeverityNumber.DEBUG),
)
"""Python's levels and the first number of OTLP's range of each severity."""


class LogSender(Sender):
    """Exports log records in batches."""

    def __init__(
        self,
        exporters: list[LogRecordExporter],
        watch: Watch,
        batching: Batching,
        resource: Resource,
    ) -> None:
        """Creates the sender without starting it; as for spans, without a scope."""
        super().__init__(Signal.LOGS)
        first, *others = exporters
        self._exporters = [WatchedRecords(first, watch), *others]
        self._watch = watch
        self._batching = batching
        self._resource = resource
        self._provider: LoggerProvider | None = None

    @property
    def counts(self) -> Counts:
        return self._watch.tally.counts

    def offer(self, record: LoggedRecord, observed_at: int) -> None:
        """Exports a record, unless too many wait already."""
        if not self._watch.tally.admit(1):
            return
        self.start()
        emitted = isolate(self._emit, record, observed_at)
        if isinstance(emitted, Failure):
            self._watch.failed(1, emitted.summary)

    def missed(self, records: int) -> None:
        """Counts records that were dropped before they came here."""
        self._watch.tally.missed(records)

    def _emit(self, record: LoggedRecord, observed_at: int) -> None:
        assert self._provider is not None
        self._provider.get_logger(record.logger).emit(converted(record, observed_at))

    def _open(self) -> Callable[[], object]:
        self._provider = LoggerProvider(self._resource, shutdown_on_exit=False)
        for exporter in self._exporters:
            self._provider.add_log_record_processor(
                BatchLogRecordProcessor(
                    exporter,
                    max_queue_size=self._batching.max_waiting,
                    schedule_delay_millis=self._batching.delay_ms,
                    max_export_batch_size=self._batching.max_batch,
                )
            )
        return self._provider.shutdown

    def _drop(self) -> None:
        self._watch.close()

    def _interrupt(self) -> None:
        for exporter in self._exporters:
            exporter.shutdown()


def converted(record: LoggedRecord, observed_at: int) -> LogRecord:
    """Returns a record as OpenTelemetry has it.

    Args:
        record: The record.
        observed_at: When the exporter got it, in nanoseconds since the epoch.
    """
    return LogRecord(
        timestamp=record.at,
        observed_timestamp=observed_at,
        context=_context(record),
        severity_text=logging.getLevelName(record.level),
        severity_number=severity(record.level),
        body=valid(record.message),
        attributes={
            valid(name): valid(value) if isinstance(value, str) else value
            for name, value in _attributes(record).items()
            if value is not None and value != ""
        },
    )


def severity(level: int) -> SeverityNumber:
    """Returns OTLP's severity number of a Python level."""
    return next(
        (number for least, number in _SEVERITIES if level >= least),
        SeverityNumber.TRACE,
    )


def _context(record: LoggedRecord) -> Context:
    """The span of the record; without a span of its own, only its trace."""
    trace_id = trace_number(record.trace_id)
    span_id = span_number(record.span_id) if trace_id else 0
    flags = TraceFlags(TraceFlags.SAMPLED if span_id else TraceFlags.DEFAULT)
    span = SpanContext(trace_id, span_id, is_remote=False, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


def _attributes(record: LoggedRecord) -> dict[str, FieldValue]:
    """Attributes by the conventions, and the record's own fields by their names."""
    return {
        **record.fields,
        "code.file.path": record.path,
        "code.line.number": record.line or None,
        "exception.stacktrace": record.exception,
        "thread.name": record.thread,
        "hookline.process": record.process,
    }
