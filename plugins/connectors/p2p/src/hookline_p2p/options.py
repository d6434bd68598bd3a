"""Options of the connector, from `kv_connector_extra_config`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Self

from hookline.config.checks import check_seconds, one_of, refuse_unknown
from hookline.exceptions import ConfigError
from hookline_kv_transfer.config import OPTION
from hookline_processes.addresses import (
    LARGEST_PORT,
    AddressError,
    HostPort,
    is_everywhere,
    is_loopback,
    read_host,
)
from hookline_processes.local_secret import local_secret_file

SECRET_VARIABLE = "HOOKLINE_P2P_SECRET"  # noqa: S105 - the name of one
_LEAST_SECRET = 16
_LEAST_BYTES = 1 << 20


class Mode(StrEnum):
    """Whether consumers fetch blocks on request, or producers offer them."""

    PULL = "pull"
    PUSH = "push"


class TransportKind(StrEnum):
    """Which transport carries blocks."""

    ZMQ = "zmq"
    NIXL = "nixl"


@dataclass(frozen=True, slots=True, kw_only=True)
class P2POptions:
    """Addresses, limits and timeouts of an engine.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one. Of several engines each adds its
            index.
        advertised_host: Address that other engines connect to; `host` if None.
        secret_file: File whose first line is the secret that all engines share; without
            one, those of this user on this machine do.
        mode: Whether a producer offers blocks to the decoder that a request names.
        transport: Transport of the blocks.
        max_in_flight_bytes: Maximum size of requested blocks that have not arrived, and
            of blocks that wait to be sent to one engine.
        max_staged_bytes: Maximum size of staged blocks.
        staged_seconds: How long staged blocks wait for their request.
        peer_timeout_seconds: Silence after which an engine is given up.
        secret: The secret of the file or of the environment.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str | None = None
    secret_file: str | None = None
    mode: Mode = Mode.PULL
    transport: TransportKind = TransportKind.ZMQ
    max_in_flight_bytes: int = 64 * 2**20
    max_staged_bytes: int = 256 * 2**20
    staged_seconds: float = 60.0
    peer_timeout_seconds: float = 5.0
    secret: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options of a JSON object.

        Raises:
            ConfigError: An option is unknown or invalid, or options contradict.
        """
        known = [each.name for each in fields(cls) if each.name != "secret"]
        refuse_unknown("p2p", OPTION, given, known)
        values = {name: _checked(name, value) for name, value in given.items()}
        made = cls(**values, secret=_secret(values.get("secret_file")))  # type: ignore[arg-type]
        made._check_together()
        return made

    @property
    def public_host(self) -> str:
        """Address that other engines connect to."""
        return self.advertised_host or self.host

    @property
    def link_secret(self) -> bytes:
        """What encrypts and authenticates: the given secret, else the user's own.

        Raises:
            ConfigError: There is no folder for one that is this user's alone.
        """
        if self.secret is not None:
            return self.secret
        try:
            return local_secret_file().read_bytes()
        except OSError as error:
            raise ConfigError(
                OPTION,
                f"p2p needs a secret: name a secret_file, or set {SECRET_VARIABLE} (no "
                f"folder for one is this user's alone: {error})",
            ) from error

    def may_connect(self, host: str) -> bool:
        """Whether to connect: to this machine, or anywhere with a given secret."""
        return self.secret is not None or is_loopback(host)

    def _check_together(self) -> None:
        if not self.may_connect(self.host):
            raise ConfigError(
                OPTION,
                f"p2p listens on {self.host} only with a secret: name a secret_file, "
                f"or set {SECRET_VARIABLE}",
            )
        if is_everywhere(self.public_host):
            raise ConfigError(
                OPTION,
                f"p2p listens on {self.host}: say in advertised_host where others "
                "find this engine",
            )


def _checked(name: str, value: object) -> object:
    if name == "mode":
        return one_of(OPTION, name, Mode, value)
    if name == "transport":
        return one_of(OPTION, name, TransportKind, value)
    if name.endswith("_seconds"):
        check_seconds(OPTION, name, value)
    elif name == "port" or name.endswith("_bytes"):
        least, most = (0, LARGEST_PORT) if name == "port" else (_LEAST_BYTES, 1 << 62)
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(
                OPTION, f"{name} must be {least} to {most}, not {value!r}"
            )
    elif not isinstance(value, str) or not value:
        raise ConfigError(OPTION, f"{name} must be a text, not {value!r}")
    elif name.endswith("host"):
        return _host(name, value)
    return value


def _host(name: str, value: str) -> str:
    try:
        return read_host(value)
    except AddressError as error:
        raise ConfigError(OPTION, f"{name}: {error}") from error


def _secret(file: object) -> bytes | None:
    where, found = SECRET_VARIABLE, os.environ.get(SECRET_VARIABLE)
    if isinstance(file, str):
        where = file
        try:
            found = Path(file).read_text("utf-8").partition("\n")[0].strip()
        except (OSError, ValueError) as error:
            raise ConfigError(
                OPTION, f"secret_file {file!r} cannot be read: {error}"
            ) from error
    if found is None:
        return None
    if len(found) < _LEAST_SECRET:
        raise ConfigError(
            OPTION,
            f"the secret in {where} has fewer than {_LEAST_SECRET} characters",
        )
    return found.encode()


def port_of_engine(port: int, index: int) -> int:
    """Returns an engine's own port: the index is added, but to 0, a free one.

    Raises:
        ConfigError: There is no such port.
    """
    try:
        return HostPort("", port).plus(index).port
    except AddressError as error:
        raise ConfigError(OPTION, f"p2p: {error}") from error
