"""The SDK's exporters, each imported only where its protocol is spoken."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.trace import ReadableSpan

from hookline.exceptions import ConfigError
from hookline_otel.delivery import Exporter
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_registry import Failure, isolate

EXPORT_SECONDS = 5.0
"""Of one export, with all its tries; a thread that hangs is back after so long."""

Made = TypeVar("Made")


def make_span_exporter(
    endpoint: Endpoint, headers: dict[str, str] | None
) -> Exporter[Sequence[ReadableSpan]]:
    """Connects to nothing yet.

    Raises:
        ConfigError: The standard environment variables hold something wrong.
    """
    if endpoint.protocol is OtlpProtocol.GRPC:
        return _checked(Signal.TRACES, lambda: _grpc_spans(endpoint, headers))
    return _checked(Signal.TRACES, lambda: _http_spans(endpoint, headers))


def make_metric_exporter(
    endpoint: Endpoint, headers: dict[str, str] | None
) -> Exporter[MetricsData]:
    """The same for metrics."""
    if endpoint.protocol is OtlpProtocol.GRPC:
        return _checked(Signal.METRICS, lambda: _grpc_metrics(endpoint, headers))
    return _checked(Signal.METRICS, lambda: _http_metrics(endpoint, headers))


def _grpc_spans(
    endpoint: Endpoint, headers: dict[str, str] | None
) -> Exporter[Sequence[ReadableSpan]]:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    return OTLPSpanExporter(
        endpoint=endpoint.url,
        insecure=not endpoint.is_secure,
        headers=headers,
        timeout=EXPORT_SECONDS,
    )


def _grpc_metrics(
    endpoint: Endpoint, headers: dict[str, str] | None
) -> Exporter[MetricsData]:
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )

    return OTLPMetricExporter(
        endpoint=endpoint.url,
        insecure=not endpoint.is_secure,
        headers=headers,
        timeout=EXPORT_SECONDS,
    )


def _http_spans(
    endpoint: Endpoint, headers: dict[str, str] | None
) -> Exporter[Sequence[ReadableSpan]]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    return OTLPSpanExporter(
        endpoint=endpoint.url, headers=headers, timeout=EXPORT_SECONDS
    )


def _http_metrics(
    endpoint: Endpoint, headers: dict[str, str] | None
) -> Exporter[MetricsData]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )

    return OTLPMetricExporter(
        endpoint=endpoint.url, headers=headers, timeout=EXPORT_SECONDS
    )


def _checked(signal: Signal, make: Callable[[], Made]) -> Made:
    made = isolate(make)
    if isinstance(made, Failure):
        raise ConfigError(
            f"otel.{signal}_endpoint", f"no exporter for it: {made.summary}"
        ) from made.error
    return made
