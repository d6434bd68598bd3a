"""How a collector is spoken to: the standard's environment variables."""

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
    """Of one signal.

    Attributes:
        headers: Sent along, by lower-case name.
        compression: Of what is sent.
        certificate: File with the authorities that are trusted; None: the system's.
        client_key: File with our own key, for a collector that wants to know us.
        client_certificate: File with the certificate of that key.
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
        """Takes the variables, those of the signal first; given headers outrank them.

        Raises:
            ConfigError: A variable cannot be, or names a file that is not there.
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
    """What collectors are told about who sends."""
    return f"hookline-otel/{version('hookline-otel')}"


@dataclass(frozen=True, slots=True)
class _Variables:
    signal: Signal
    environment: Mapping[str, str]

    def get(self, name: str) -> tuple[str, str | None]:
        """A variable's full name and value; an empty one counts as none."""
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
        raise ConfigError(variable, f"there is no file {text!r}")
    return Path(text)
