"""Transport settings from the standard environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Self

from hookline.exceptions import ConfigError
from hookline_otel.endpoint import ENVIRONMENT, Endpoint, Signal
from hookline_otel.options import read_headers


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
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    compression: Compression = Compression.NONE
    certificate: Path | None = None
    client_key: Path | None = None
    client_certificate: Path | None = None

    @classmethod
    def read(
        cls,
        signal: Signal,
        endpoint: Endpoint,
        headers: dict[str, str] | None,
        environment: Mapping[str, str],
    ) -> Self:
        """Reads the variables, the signal's own first; `headers` override them.

        Raises:
            ConfigError: A variable is invalid, or names a missing file.
        """
        found = _Variables(signal, environment)
        if headers is None:
            headers = read_headers(*found.get("HEADERS"))
        return cls(
            headers=headers or {},
            compression=_compression(*found.get("COMPRESSION")),
            **(
                {
                    name.lower(): _file(*found.get(name))
                    for name in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")
                }
                if endpoint.is_secure
                else {}
            ),
        )


def user_agent() -> str:
    """Returns the value of the User-Agent header."""
    return f"hookline-otel/{version('hookline-otel')}"


@dataclass(frozen=True, slots=True)
class _Variables:
    signal: Signal
    environment: Mapping[str, str]

    def get(self, name: str) -> tuple[str, str | None]:
        """Returns a variable's full name and its value, None if unset or empty."""
        own, shared = (
            f"{ENVIRONMENT}_{self.signal.upper()}_{name}",
            f"{ENVIRONMENT}_{name}",
        )
        if value := self.environment.get(own):
            return own, value
        return shared, self.environment.get(shared) or None


def _compression(variable: str, text: str | None) -> Compression:
    name = "none" if text is None else text.strip().lower()
    if name not in tuple(Compression):
        known = ", ".join(Compression)
        raise ConfigError(variable, f"unknown compression {text!r}; known: {known}")
    return Compression(name)


def _file(variable: str, text: str | None) -> Path | None:
    if text is None:
        return None
    if not Path(text).is_file():
        raise ConfigError(variable, f"no such file: {text!r}")
    return Path(text)
