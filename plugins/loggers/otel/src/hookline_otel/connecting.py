"""Connects a signal to its collector: settings, transport and delivery."""

import os

from hookline.clock import SystemClock
from hookline.exceptions import ConfigError
from hookline_otel.delivery import Delivery
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.outage_log import OutageLog
from hookline_otel.transport import Transport
from hookline_otel.transport_settings import TransportSettings
from hookline_registry import Failure, isolate


def make_delivery(
    signal: Signal, endpoint: Endpoint, headers: dict[str, str] | None
) -> Delivery:
    """Creates the delivery of a signal from the standard environment variables.

    Args:
        signal: What is sent.
        endpoint: Where to.
        headers: Headers of requests; None takes those of the variables.

    Raises:
        ConfigError: The endpoint or a variable is invalid.
    """
    settings = TransportSettings.read(signal, endpoint, headers, os.environ)
    return Delivery(
        make_transport(signal, endpoint, settings),
        OutageLog(signal, endpoint, SystemClock()),
        settings.export_seconds,
    )


def make_transport(
    signal: Signal, endpoint: Endpoint, settings: TransportSettings
) -> Transport:
    """Creates the endpoint's transport, which connects on first use.

    Raises:
        ConfigError: The endpoint cannot be used with these settings.
    """
    made = isolate(_make, signal, endpoint, settings)
    if isinstance(made, Failure):
        raise ConfigError(
            f"otel.{signal}_endpoint", f"cannot be used: {made.summary}"
        ) from made.error
    return made


def _make(signal: Signal, endpoint: Endpoint, settings: TransportSettings) -> Transport:
    # Both are slow to import, and only one is needed.
    if endpoint.protocol is OtlpProtocol.GRPC:
        from hookline_otel.grpc_transport import GrpcTransport  # noqa: PLC0415

        return GrpcTransport(signal, endpoint, settings)
    from hookline_otel.http_transport import HttpTransport  # noqa: PLC0415

    return HttpTransport(endpoint, settings)
