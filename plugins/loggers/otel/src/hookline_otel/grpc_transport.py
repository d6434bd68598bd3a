"""OTLP over gRPC, with encoded bytes instead of message classes."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import grpc

from hookline_otel.endpoint import Endpoint, Signal
from hookline_otel.transport import Refusal
from hookline_otel.transport_settings import (
    Compression,
    TransportSettings,
    proxy_of,
    user_agent,
)

RECONNECT_MS = 500
"""Replaces gRPC's backoff of up to two minutes: `Delivery` already backs off."""

_SERVICES: Mapping[Signal, str] = {
    Signal.TRACES: "trace.v1.TraceService",
    Signal.METRICS: "metrics.v1.MetricsService",
    Signal.LOGS: "logs.v1.LogsService",
}
_COMPRESSION: Mapping[Compression, grpc.Compression] = {
    Compression.NONE: grpc.Compression.NoCompression,
    Compression.GZIP: grpc.Compression.Gzip,
    Compression.DEFLATE: grpc.Compression.Deflate,
}
_PASSING = (
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
)
"""Status codes after which OTLP allows a retry."""


class GrpcTransport:
    """Calls the `Export` method of one OTLP service."""

    def __init__(
        self, signal: Signal, endpoint: Endpoint, settings: TransportSettings
    ) -> None:
        self._channel = _open(endpoint, settings)
        self._metadata = tuple(settings.headers.items())
        self._export: grpc.UnaryUnaryMultiCallable[bytes, bytes]
        self._export = self._channel.unary_unary(
            f"/opentelemetry.proto.collector.{_SERVICES[signal]}/Export"
        )

    def post(self, body: bytes, timeout_seconds: float) -> Refusal | None:
        try:
            self._export(body, timeout=timeout_seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            return _refusal(error)
        return None

    def close(self) -> None:
        self._channel.close()


def _open(endpoint: Endpoint, settings: TransportSettings) -> grpc.Channel:
    target = urlsplit(endpoint.url).netloc
    compression = _COMPRESSION[settings.compression]
    proxy = proxy_of(endpoint)
    options = (
        # gRPC would ask a proxy for this machine, and reads only some of NO_PROXY.
        ("grpc.enable_http_proxy", int(proxy is not None)),
        *([("grpc.http_proxy", proxy)] if proxy is not None else []),
        ("grpc.primary_user_agent", user_agent()),
        ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", RECONNECT_MS),
    )
    if not endpoint.is_secure:
        return grpc.insecure_channel(target, options, compression)
    credentials = grpc.ssl_channel_credentials(
        _bytes(settings.certificate),
        _bytes(settings.client_key),
        _bytes(settings.client_certificate),
    )
    return grpc.secure_channel(target, credentials, options, compression)


def _bytes(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes()


def _refusal(error: grpc.RpcError) -> Refusal:
    # Errors of calls are `grpc.Call` too; plain `RpcError` has no code or details.
    if not isinstance(error, grpc.Call):
        return Refusal(str(error))
    code = error.code()
    return Refusal(f"{code.name}: {error.details()}", is_passing=code in _PASSING)
