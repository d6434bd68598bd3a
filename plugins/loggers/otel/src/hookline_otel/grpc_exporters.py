"""OpenTelemetry's exporters over gRPC, with this plugin's settings and encoding."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.sdk.trace import ReadableSpan

from hookline_otel.endpoint import Endpoint
from hookline_otel.envelope import Envelope
from hookline_otel.transport_settings import (
    Compression,
    TransportSettings,
    proxy_of,
    user_agent,
)

RECONNECT_MS = 500
"""Replaces gRPC's backoff of up to two minutes: the exporters back off themselves."""

_COMPRESSION: Mapping[Compression, grpc.Compression] = {
    Compression.NONE: grpc.Compression.NoCompression,
    Compression.GZIP: grpc.Compression.Gzip,
    Compression.DEFLATE: grpc.Compression.Deflate,
}

METRICS = OTLPMetricExporter
LOGS = OTLPLogExporter


class SpanExporter(OTLPSpanExporter):
    """Exports spans that are encoded as bytes, and only then read as messages."""

    def __init__(self, envelope: Envelope, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._envelope = envelope

    def _translate_data(
        self, data: Sequence[ReadableSpan]
    ) -> ExportTraceServiceRequest:
        return ExportTraceServiceRequest.FromString(self._envelope.encode(data))


def arguments(endpoint: Endpoint, settings: TransportSettings) -> dict[str, Any]:
    """Returns what the constructors of all these exporters take."""
    proxy = proxy_of(endpoint)
    return {
        "endpoint": endpoint.url,
        "insecure": not endpoint.is_secure,
        "credentials": _credentials(settings) if endpoint.is_secure else None,
        "headers": dict(settings.headers),
        "timeout": settings.export_seconds,
        "compression": _COMPRESSION[settings.compression],
        "channel_options": (
            # gRPC would ask a proxy for this machine, and reads only some of NO_PROXY.
            ("grpc.enable_http_proxy", int(proxy is not None)),
            *([("grpc.http_proxy", proxy)] if proxy is not None else []),
            ("grpc.primary_user_agent", user_agent()),
            ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_MS),
        ),
    }


def _credentials(settings: TransportSettings) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        _bytes(settings.certificate),
        _bytes(settings.client_key),
        _bytes(settings.client_certificate),
    )


def _bytes(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes()
