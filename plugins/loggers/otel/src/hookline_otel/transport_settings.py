"""Transport settings from the standard environment variables."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from hookline.exceptions import ConfigError
from hookline_otel.endpoint import Endpoint, Signal
from hookline_otel.options import read_headers, read_milliseconds
from hookline_otel.variables import of_signal, tolerant, value
from hookline_processes.addresses import AddressError
from hookline_processes.proxies import proxy_for

EXPORT_SECONDS = 5.0
_MOST_SECONDS = 600.0
_LIMITS = {
    Signal.TRACES: "OTEL_BSP_EXPORT_TIMEOUT",
    Signal.METRICS: "OTEL_METRIC_EXPORT_TIMEOUT",
    Signal.LOGS: "OTEL_BLRP_EXPORT_TIMEOUT",
}
"""Variables of what the SDK has before the exporters, which leaves them to these."""

_log = logging.getLogger("hookline_otel")


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    DEFLATE = "deflate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """Transport settings of one signal.

    Attributes:
        headers: Request headers by lower-case name.
        compression: Compression of request bodies.
        certificate: File of trusted certificate authorities; None uses the system's.
        client_key: File of the client's private key, for mutual TLS.
        client_certificate: File of the client's certificate.
        export_seconds: Maximum time of an export, with its retries.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    compression: Compression = Compression.NONE
    certificate: Path | None = None
    client_key: Path | None = None
    client_certificate: Path | None = None
    export_seconds: float = EXPORT_SECONDS

    @classmethod
    def read(
        cls,
        signal: Signal,
        endpoint: Endpoint,
        headers: dict[str, str] | None,
        environment: Mapping[str, str],
    ) -> Self:
        """Reads the variables, the signal's own first; `headers` override them."""
        found = partial(of_signal, environment, signal)
        if headers is None:
            headers = tolerant(read_headers, *found("HEADERS"), None)
        files: dict[str, Path | None] = {}
        if endpoint.is_secure:
            for name in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"):
                files[name.lower()] = tolerant(_file, *found(name), None)
        return cls(
            headers=headers or {},
            compression=tolerant(_compression, *found("COMPRESSION"), Compression.NONE),
            export_seconds=min(
                tolerant(_seconds, *found("TIMEOUT"), EXPORT_SECONDS),
                tolerant(
                    _seconds, limit := _LIMITS[signal], value(environment, limit), inf
                ),
            ),
            **files,
        )


def user_agent() -> str:
    """Returns the value of the User-Agent header."""
    return f"hookline-otel/{version('hookline-otel')}"


def _seconds(variable: str, text: str) -> float:
    if text == "0":  # by the standard, without limit
        return _MOST_SECONDS
    return read_milliseconds(variable, text, _MOST_SECONDS)


def _compression(variable: str, text: str) -> Compression:
    name = text.lower()
    if name not in tuple(Compression):
        known = ", ".join(Compression)
        raise ConfigError(variable, f"unknown compression {text!r}; known: {known}")
    return Compression(name)


def _file(variable: str, text: str) -> Path:
    try:
        Path(text).read_bytes()
    except OSError as error:
        raise ConfigError(
            variable, f"{text!r} cannot be read: {error.strerror}"
        ) from error
    return Path(text)


def proxy_of(endpoint: Endpoint) -> str | None:
    """Returns the proxy on the way to an endpoint; None for none, or a wrong one."""
    parts = urlsplit(endpoint.url)
    scheme = "https" if endpoint.is_secure else "http"
    try:
        return proxy_for(parts._replace(scheme=scheme).geturl())
    except AddressError as error:
        _log.warning("%s is reached directly: %s", endpoint.host, error)
        return None
