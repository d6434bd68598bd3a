"""Builds a logger from its options."""

import os
from collections.abc import Callable

from opentelemetry.sdk.resources import Resource

from hookline.clock import SystemClock
from hookline.payloads import LoggerContext
from hookline_otel.batching import Batching
from hookline_otel.endpoint import Endpoint, Signal
from hookline_otel.envelope import Envelope
from hookline_otel.exporters import Exporters
from hookline_otel.log_exporter import LogExporter
from hookline_otel.log_sender import LogSender
from hookline_otel.logger import Metrics, OtelLogger
from hookline_otel.metric_sender import CatalogueExporter, MetricSender
from hookline_otel.metric_source import MetricSource
from hookline_otel.options import Options
from hookline_otel.outage_log import OutageLog
from hookline_otel.resource import make_resource, make_scope
from hookline_otel.span_sender import HostSpanSender, SpanSender
from hookline_otel.tally import Counts, Tally
from hookline_otel.watch import Watch


def build_logger(context: LoggerContext, options: Options) -> OtelLogger:
    """Builds a logger; threads and connections start with its first hook.

    Raises:
        ConfigError: An endpoint cannot be used.
    """
    resource = make_resource(options.service_name)
    spans, logs = make_span_sender(options, resource), _log_sender(options, resource)
    make = OtelLogger if logs is None else LogExporter
    return make(
        spans,
        _metrics(context, options, resource, spans=spans, logs=logs),
        logs,
        model=context.config.model.served_name,
        semconv=options.semconv,
        flush_seconds=options.flush_seconds,
        clock=SystemClock(),
    )


def make_span_sender(
    options: Options, resource: Resource
) -> SpanSender | HostSpanSender | None:
    """Makes what sends spans; None if nothing does.

    Args:
        options: Say where to.
        resource: Describes the server, unless the host program does.

    Raises:
        ConfigError: An exporter cannot be used.
    """
    scope = make_scope(options.semconv)
    if options.is_host_traced:
        return HostSpanSender(scope)
    exporters = Exporters(options.headers).of_spans(
        options.traces,
        options.others.get(Signal.TRACES, ()),
        Envelope(resource, scope),
    )
    if not exporters:
        return None
    batching = Batching.of(Signal.TRACES, os.environ)
    watch = _watch(Signal.TRACES, options.traces, "spans", batching)
    return SpanSender(exporters, watch, batching, resource, scope)


def _log_sender(options: Options, resource: Resource) -> LogSender | None:
    exporters = Exporters(options.headers).of_records(
        options.logs, options.others.get(Signal.LOGS, ())
    )
    if not exporters:
        return None
    batching = Batching.of(Signal.LOGS, os.environ)
    watch = _watch(Signal.LOGS, options.logs, "log records", batching)
    return LogSender(exporters, watch, batching, resource)


def _metrics(
    context: LoggerContext,
    options: Options,
    resource: Resource,
    *,
    spans: SpanSender | HostSpanSender | None,
    logs: LogSender | None,
) -> Metrics | None:
    exporters = Exporters(options.headers).of_metrics(
        options.metrics, options.others.get(Signal.METRICS, ())
    )
    if not exporters:
        return None
    clock, scope = SystemClock(), make_scope(options.semconv)
    source = MetricSource(context.config, scope, clock=clock, kept=context.kept)
    outage = OutageLog(Signal.METRICS, options.metrics, clock)
    counts: dict[str, Callable[[], Counts]] = {}
    if isinstance(spans, SpanSender):
        counts["spans"] = lambda: spans.counts
    if logs is not None:
        counts["log_records"] = lambda: logs.counts
    sender = MetricSender(
        [CatalogueExporter(each, source.collect, outage) for each in exporters],
        resource,
        scope,
        interval_seconds=options.metrics_interval_seconds,
        counts=counts,
    )
    return Metrics(source, sender)


def _watch(
    signal: Signal, endpoint: Endpoint | None, parts: str, batching: Batching
) -> Watch:
    outage = OutageLog(signal, endpoint, SystemClock())
    return Watch(parts, Tally(batching.max_waiting), outage)
