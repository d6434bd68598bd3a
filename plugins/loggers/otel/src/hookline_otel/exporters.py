"""Makes the exporters of a signal: OTLP by a protocol, and others by their names."""

import os
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from hookline.exceptions import ConfigError
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.envelope import Envelope
from hookline_otel.exporter_names import group
from hookline_otel.transport_settings import TransportSettings
from hookline_registry import Failure, isolate

PACKAGES = {
    OtlpProtocol.GRPC: "opentelemetry-exporter-otlp-proto-grpc",
    OtlpProtocol.HTTP: "opentelemetry-exporter-otlp-proto-http",
}


class Exporters:
    """Makes exporters; they connect on first use."""

    def __init__(self, headers: dict[str, str] | None) -> None:
        """Makes exporters with these headers; None takes those of the variables."""
        self._headers = headers

    def of_spans(
        self, endpoint: Endpoint | None, others: Sequence[str], envelope: Envelope
    ) -> list[SpanExporter]:
        """Makes those of spans.

        Raises:
            ConfigError: One cannot be used.
        """
        found: list[SpanExporter] = []
        if endpoint is not None:
            found.append(
                self._otlp(Signal.TRACES, endpoint, "SpanExporter", envelope=envelope)
            )
        return found + [_by_name(Signal.TRACES, name) for name in others]

    def of_records(
        self, endpoint: Endpoint | None, others: Sequence[str]
    ) -> list[LogRecordExporter]:
        """Makes those of log records.

        Raises:
            ConfigError: One cannot be used.
        """
        found: list[LogRecordExporter] = []
        if endpoint is not None:
            found.append(self._otlp(Signal.LOGS, endpoint, "LOGS"))
        return found + [_by_name(Signal.LOGS, name) for name in others]

    def of_metrics(
        self, endpoint: Endpoint | None, others: Sequence[str]
    ) -> list[MetricExporter]:
        """Makes those of metrics.

        Raises:
            ConfigError: One cannot be used.
        """
        found: list[MetricExporter] = []
        if endpoint is not None:
            found.append(self._otlp(Signal.METRICS, endpoint, "METRICS"))
        return found + [_by_name(Signal.METRICS, name) for name in others]

    def _otlp(self, signal: Signal, endpoint: Endpoint, kind: str, **more: Any) -> Any:
        module = _protocol_module(signal, endpoint.protocol)
        settings = TransportSettings.read(signal, endpoint, self._headers, os.environ)
        made = isolate(
            lambda: getattr(module, kind)(
                **more, **module.arguments(endpoint, settings)
            )
        )
        if isinstance(made, Failure):
            raise ConfigError(
                f"otel.{signal}_endpoint", f"cannot be used: {made.summary}"
            ) from made.error
        return made


def _protocol_module(signal: Signal, protocol: OtlpProtocol) -> ModuleType:
    # Both are slow to import, and only one is needed.
    try:
        if protocol is OtlpProtocol.GRPC:
            from hookline_otel import grpc_exporters  # noqa: PLC0415

            return grpc_exporters
        from hookline_otel import http_exporters  # noqa: PLC0415
    except ImportError as error:
        other = next(each for each in OtlpProtocol if each is not protocol)
        raise ConfigError(
            f"otel.{signal}_endpoint",
            f"the protocol {protocol} needs {PACKAGES[protocol]}, which cannot be "
            f"imported ({error}): install it, or use the protocol {other}",
        ) from error
    return http_exporters


def _by_name(signal: Signal, name: str) -> Any:
    """Makes an exporter that an installed distribution offers.

    Raises:
        ConfigError: It cannot be made.
    """
    [found, *_] = entry_points(group=group(signal), name=name)
    made = isolate(_made, found)
    if isinstance(made, Failure):
        raise ConfigError(
            f"OTEL_{signal.upper()}_EXPORTER",
            f"{name} cannot be used: {made.summary}",
        ) from made.error
    return made


def _made(found: EntryPoint) -> Any:
    return found.load()()
