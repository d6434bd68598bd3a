"""Builds a logger from its options."""

from hookline.clock import SystemClock
from hookline.payloads import LoggerContext
from hookline_otel.connecting import make_delivery
from hookline_otel.endpoint import Endpoint, Signal
from hookline_otel.envelope import Envelope, LogEnvelope
from hookline_otel.log_exporter import LogExporter
from hookline_otel.log_item import ScopedRecord
from hookline_otel.logger import Metrics, OtelLogger
from hookline_otel.metric_sender import MetricSender
from hookline_otel.metric_source import MetricSource
from hookline_otel.options import Options
from hookline_otel.queue_sender import LOG_RECORDS, SPANS, QueueSender
from hookline_otel.resource import make_resource, make_scope


def build_logger(context: LoggerContext, options: Options) -> OtelLogger:
    """Builds a logger; threads and connections start with its first hook.

    Raises:
        ConfigError: An endpoint cannot be used.
    """
    clock = SystemClock()
    resource = make_resource(options.service_name)
    scope = make_scope(options.semconv)
    spans = _span_sender(options, Envelope(resource, scope))
    logs = _log_sender(options, LogEnvelope(resource))
    metrics = None
    if (endpoint := options.metrics) is not None:
        source = MetricSource(
            context.config,
            resource,
            scope,
            spans=spans,
            logs=logs,
            clock=clock,
            kept=context.kept,
        )
        metrics = Metrics(source, _metric_sender(endpoint, options, source))
    make = OtelLogger if logs is None else LogExporter
    return make(
        spans,
        metrics,
        logs,
        model=context.config.model.served_name,
        semconv=options.semconv,
        flush_seconds=options.flush_seconds,
        clock=clock,
    )


def _span_sender(options: Options, envelope: Envelope) -> QueueSender[bytes] | None:
    if (endpoint := options.traces) is None:
        return None
    delivery = make_delivery(Signal.TRACES, endpoint, options.headers)
    return QueueSender(delivery, envelope.wrap, SPANS)


def _log_sender(
    options: Options, envelope: LogEnvelope
) -> QueueSender[ScopedRecord] | None:
    if (endpoint := options.logs) is None:
        return None
    delivery = make_delivery(Signal.LOGS, endpoint, options.headers)
    return QueueSender(delivery, envelope.wrap, LOG_RECORDS)


def _metric_sender(
    endpoint: Endpoint, options: Options, source: MetricSource
) -> MetricSender:
    return MetricSender(
        make_delivery(Signal.METRICS, endpoint, options.headers),
        source.encode,
        interval_seconds=options.metrics_interval_seconds,
    )
