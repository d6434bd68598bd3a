"""A signal's endpoint, from an option or the standard environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from hookline.exceptions import ConfigError

ENVIRONMENT = "OTEL_EXPORTER_OTLP"
"""Prefix of the standard environment variables."""


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
        ConfigError: The protocol or the URL is invalid.
    """
    protocol = _protocol(signal, given, environment, name)
    own, shared = (
        f"{ENVIRONMENT}_{signal.upper()}_ENDPOINT",
        f"{ENVIRONMENT}_ENDPOINT",
    )
    if (url := given.get(f"{signal}_endpoint")) is not None:
        return _endpoint(f"{name}.{signal}_endpoint", url, protocol, signal)
    if url := environment.get(own):
        return _endpoint(own, url, protocol, signal)
    if base := environment.get(shared):
        # By the standard, the shared variable is a base URL whatever its path.
        path = f"/v1/{signal}" if protocol is OtlpProtocol.HTTP else ""
        return _endpoint(shared, base.rstrip("/") + path, protocol, signal)
    return None


def _protocol(
    signal: Signal, given: Mapping[str, str], environment: Mapping[str, str], name: str
) -> OtlpProtocol:
    sources = (
        (f"{name}.protocol", given.get("protocol")),
        *(
            (variable, environment.get(variable) or None)
            for variable in (
                f"{ENVIRONMENT}_{signal.upper()}_PROTOCOL",
                f"{ENVIRONMENT}_PROTOCOL",
            )
        ),
    )
    for option, text in sources:
        if text is None:
            continue
        if text not in tuple(OtlpProtocol):
            known = ", ".join(OtlpProtocol)
            raise ConfigError(option, f"unknown protocol {text!r}; known: {known}")
        return OtlpProtocol(text)
    return OtlpProtocol.GRPC


def _endpoint(
    option: str, url: str, protocol: OtlpProtocol, signal: Signal
) -> Endpoint:
    parts = _split(option, url, protocol)
    has_path = parts.path not in {"", "/"}
    if protocol is OtlpProtocol.GRPC and has_path:
        raise ConfigError(
            option,
            f"{url!r} has a path, which gRPC does not use; remove it, or use the "
            f"protocol {OtlpProtocol.HTTP}",
        )
    if protocol is OtlpProtocol.HTTP and not has_path:
        parts = parts._replace(path=f"/v1/{signal}")
    return Endpoint(parts.geturl(), protocol)


def _split(option: str, url: str, protocol: OtlpProtocol) -> SplitResult:
    # Other engines' guides write `grpc://` for gRPC without TLS.
    schemes = (
        ("http", "https", "grpc")
        if protocol is OtlpProtocol.GRPC
        else (
            "http",
            "https",
        )
    )
    detail = f"must be a URL such as http://localhost:4317, not {url!r}"
    if any(character.isspace() for character in url):
        raise ConfigError(option, detail)
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError as error:
        raise ConfigError(option, detail) from error
    if not is_whole:
        raise ConfigError(option, detail)
    return parts
