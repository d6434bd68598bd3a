"""The keys of an encrypted link between machines, derived from a shared secret."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import zmq
from zmq.utils import z85

from hookline.exceptions import ConfigError
from hookline_processes.local_secret import local_secret_file

SECRET_OPTION = "data-parallel-secret-file"  # noqa: S105 - the name of an option
FEWEST_BYTES = 16
MOST_BYTES = 4096
_SALT = b"hookline data-parallel link 1"
_KEY_BYTES = 32
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A pair of Curve25519 keys in Z85, as ZMQ takes them."""

    public: bytes
    secret: bytes

    @classmethod
    def of(cls, seed: bytes) -> Self:
        """Returns the pair whose secret key is a seed of 32 bytes."""
        secret = z85.encode(seed)
        return cls(zmq.curve_public(secret), secret)


@dataclass(frozen=True, slots=True)
class LinkKeys:
    """Key pairs of both ends; whoever has the secret has both.

    Attributes:
        head: Keys of the head node.
        engine: Keys of every engine on another machine.
    """

    head: KeyPair
    engine: KeyPair

    @classmethod
    def derive(cls, secret: bytes) -> Self:
        """Derives the keys, slowly, so that guessing a weak secret is slow as well."""
        size = 2 * _KEY_BYTES
        seeds = hashlib.scrypt(secret, salt=_SALT, n=2**14, r=8, p=1, dklen=size)
        return cls(KeyPair.of(seeds[:_KEY_BYTES]), KeyPair.of(seeds[_KEY_BYTES:]))


def shared_secret(file: str | None) -> bytes:
    """Returns the secret that engines share: of a file, else of this user's processes.

    The latter is for this machine alone, where other users reach loopback, too.

    Raises:
        ConfigError: There is none that is private.
    """
    if (given := read_secret(file)) is not None:
        return given
    try:
        found = local_secret_file()
        secret = found.read_bytes()
    except OSError as error:
        raise ConfigError(
            SECRET_OPTION,
            f"is required: no folder for a secret is this user's alone ({error})",
        ) from error
    _log.info(
        "engines of this user on this machine join with the secret in %s; others need "
        "--%s",
        found,
        SECRET_OPTION,
    )
    return secret


def read_secret(file: str | None) -> bytes | None:
    """Reads the shared secret; None if there is no file of one.

    White space around it does not count, so that an editor's last newline is harmless.

    Raises:
        ConfigError: The file cannot be read, or is too short or too long.
    """
    if file is None:
        return None
    try:
        with Path(file).open("rb") as opened:
            secret = opened.read(MOST_BYTES + 1).strip()
    except OSError as error:
        raise ConfigError(
            SECRET_OPTION, f"cannot read {file}: {error.strerror}"
        ) from error
    if not FEWEST_BYTES <= len(secret) <= MOST_BYTES:
        raise ConfigError(
            SECRET_OPTION,
            f"the secret in {file} has {len(secret)} bytes, and must have "
            f"{FEWEST_BYTES} to {MOST_BYTES}",
        )
    return secret
