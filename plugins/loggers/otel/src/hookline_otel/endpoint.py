"""A signal's endpoint, from an option or the standard environment variables."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from urllib.parse import urlsplit

from hookline.exceptions import ConfigError
from hookline_otel.variables import (
    ENVIRONMENT,
    is_true,
    of_signal,
    tolerant,
)
from hookline_processes.addresses import AddressError, HostPort, read_host, read_url

_GRPC_PORT = 4317
_HTTP_PORT = 4318
_DEFAULT_HOST = "http://localhost"
_log = logging.getLogger("hookline_otel")


class Signal(StrEnum):
    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"


class OtlpProtocol(StrEnum):
    GRPC = "grpc"
    HTTP = "http/protobuf"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A receiver of one signal.

    Attributes:
        url: Includes the scheme and, for HTTP, the signal's path.
        protocol: OTLP protocol of the endpoint.
    """

    url: str
    protocol: OtlpProtocol

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https://")

    @property
    def host(self) -> str:
        """Host and port without credentials, for messages."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def find_endpoint(
    signal: Signal, given: Mapping[str, str], environment: Mapping[str, str], name: str
) -> Endpoint | None:
    """Returns the signal's endpoint, or None if none is configured.

    Raises:
        ConfigError: The protocol or the URL of an option is invalid.
    """
    protocol = _asked_protocol(signal, given, environment, name)
    insecure = of_signal(environment, signal, "INSECURE")
    is_plain = is_true(*insecure) if insecure[1] else None
    read = partial(_endpoint, protocol=protocol, signal=signal, is_plain=is_plain)
    if (url := given.get(f"{signal}_endpoint")) is not None:
        return read(f"{name}.{signal}_endpoint", url)
    variable, base = of_signal(environment, signal, "ENDPOINT")
    if base is None:
        return None
    if protocol is OtlpProtocol.GRPC:
        return tolerant(
            partial(read, is_variable=True),
            variable,
            base,
            _usual(signal, protocol),
        )
    if variable == f"{ENVIRONMENT}_ENDPOINT":
        # By the standard, the shared variable is a base URL whatever its path.
        base = f"{base.rstrip('/')}/v1/{signal}"
    return tolerant(read, variable, base, _usual(signal, protocol))


def usual_endpoint(
    signal: Signal, given: Mapping[str, str], environment: Mapping[str, str], name: str
) -> Endpoint:
    """Returns the endpoint of a collector on this machine, the standard's default."""
    return _usual(signal, _asked_protocol(signal, given, environment, name))


def _usual(signal: Signal, protocol: OtlpProtocol) -> Endpoint:
    if protocol is OtlpProtocol.GRPC:
        return Endpoint(f"{_DEFAULT_HOST}:{_GRPC_PORT}", protocol)
    return Endpoint(f"{_DEFAULT_HOST}:{_HTTP_PORT}/v1/{signal}", protocol)


def _asked_protocol(
    signal: Signal, given: Mapping[str, str], environment: Mapping[str, str], name: str
) -> OtlpProtocol:
    if (text := given.get("protocol")) is not None:
        return _protocol(f"{name}.protocol", text)
    asked = of_signal(environment, signal, "PROTOCOL")
    return tolerant(_spoken, *asked, OtlpProtocol.GRPC)


def _protocol(option: str, text: str) -> OtlpProtocol:
    if text not in tuple(OtlpProtocol):
        known = ", ".join(OtlpProtocol)
        raise ConfigError(option, f"unknown protocol {text!r}; known: {known}")
    return OtlpProtocol(text)


def _spoken(variable: str, text: str) -> OtlpProtocol:
    """Reads a variable; collectors that speak JSON speak Protobuf on the same port."""
    if text == "http/json":
        _log.warning("%s: http/json is not spoken, but http/protobuf", variable)
        return OtlpProtocol.HTTP
    return _protocol(variable, text)


def _endpoint(
    option: str,
    url: str,
    *,
    protocol: OtlpProtocol,
    signal: Signal,
    is_plain: bool | None,
    is_variable: bool = False,
) -> Endpoint:
    if protocol is OtlpProtocol.GRPC and "://" not in url:
        return Endpoint(_without_scheme(option, url, is_plain=is_plain), protocol)
    # Other engines' guides write `grpc://` for gRPC without TLS.
    schemes = ("http", "https", "grpc")[: 3 if protocol is OtlpProtocol.GRPC else 2]
    try:
        parts = read_url(url, schemes)
    except AddressError as error:
        raise ConfigError(
            option, f"must be a URL such as http://localhost:4317, not {url!r}"
        ) from error
    has_path = parts.path not in {"", "/"}
    if protocol is OtlpProtocol.GRPC and is_variable and has_path:
        _log.warning("%s: gRPC does not use the path %s", option, parts.path)
    elif protocol is OtlpProtocol.GRPC and has_path:
        raise ConfigError(
            option,
            f"{url!r} has a path, which gRPC does not use; remove it, or use the "
            f"protocol {OtlpProtocol.HTTP}",
        )
    if protocol is OtlpProtocol.GRPC and is_variable:
        parts = parts._replace(path="")
    if protocol is OtlpProtocol.HTTP and not has_path:
        parts = parts._replace(path=f"/v1/{signal}")
    return Endpoint(parts.geturl(), protocol)


def _without_scheme(option: str, text: str, *, is_plain: bool | None) -> str:
    """Returns the URL of `HOST` or `HOST:PORT`, which gRPC takes as well.

    By the standard it is reached with TLS unless `OTEL_EXPORTER_OTLP_INSECURE` is true.
    A collector on this machine is reached without, if that is not set.
    """
    try:
        place = HostPort.read(text)
    except AddressError:
        try:
            place = HostPort(read_host(text), _GRPC_PORT)
        except AddressError as error:
            raise ConfigError(
                option, f"must be a URL such as http://localhost:4317, not {text!r}"
            ) from error
    if place.port == 0:
        raise ConfigError(option, f"{text!r} has no port that can be reached")
    is_plain = place.is_loopback if is_plain is None else is_plain
    _log.info(
        "%s=%s has no scheme: it is reached %s TLS",
        option,
        text,
        "without" if is_plain else "with",
    )
    return f"{'http' if is_plain else 'https'}://{place}"
