"""Chooses the transport for a protocol."""

from hookline.exceptions import ConfigError
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.transport import Transport
from hookline_otel.transport_settings import TransportSettings
from hookline_registry import Failure, isolate


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
