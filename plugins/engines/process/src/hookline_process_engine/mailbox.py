"""Typed messages over a transport: encodes, checks the schema version, decodes."""

import hmac
import logging
import secrets
import struct
import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from hookline.engine.commands import SCHEMA_VERSION
from hookline.exceptions import ConfigError, SchemaVersionError
from hookline.frozen import plain
from hookline_process_engine.transport import Party, Role, Transport

M = TypeVar("M")
_MAGIC = b"hkln"
KEY_BYTES = 16
_KEYLESS = struct.Struct("<4sHBI")
"""Magic, schema version, and the sender's role and index; the same in every version."""
_HEADER_SIZE = _KEYLESS.size + KEY_BYTES
Keys = Callable[[Party], bytes | None]
"""Returns the key of the messages from and to a peer, or None for an unknown one."""
_log = logging.getLogger(__name__)


def make_key() -> bytes:
    """Returns a new secret, which an engine process and its clients share."""
    return secrets.token_bytes(KEY_BYTES)


def key_in(frame: bytes) -> bytes:
    """Returns the key that a frame carries, whatever else it is."""
    return frame[_KEYLESS.size : _HEADER_SIZE]


class Mail(NamedTuple, Generic[M]):
    """A message and its sender."""

    sender: Party
    message: M


class Mailbox(Generic[M]):
    """One party's messages; `post` may run in any thread, `receive` in one.

    Any process of the same user can write to the sockets. So every frame carries the
    key of its engine process, and one without it is dropped before it is decoded.

    Attributes:
        is_shaking_hands: While True, a message of another schema version is an error;
            later it is dropped.
        dropped: Messages dropped because they had no valid key or could not be
            understood.
    """

    def __init__(
        self,
        transport: Transport,
        party: Party,
        decoder: msgspec.msgpack.Decoder[M],
        keys: Keys,
        *,
        schema_version: int = SCHEMA_VERSION,
    ) -> None:
        self.is_shaking_hands = True
        self.dropped = 0
        self._transport = transport
        self._schema_version = schema_version
        self._keys = keys
        header = _KEYLESS.pack(_MAGIC, schema_version, party.role, party.index)
        self._lock = threading.Lock()
        self._frame = bytearray(header.ljust(_HEADER_SIZE))
        self._encode_into = msgspec.msgpack.Encoder(enc_hook=plain).encode_into
        self._decode = decoder.decode

    def post(
        self, receiver: Party, message: msgspec.Struct, *, waits: bool = True
    ) -> bool:
        """Sends a message to a connected peer; see `Transport.send`."""
        key = self._keys(receiver)
        assert key is not None, f"{receiver} is connected, so it has a key"
        with self._lock:
            self._frame[_KEYLESS.size : _HEADER_SIZE] = key
            self._encode_into(message, self._frame, _HEADER_SIZE)
            return self._transport.send(receiver, self._frame, waits=waits)

    def receive(self, timeout_seconds: float) -> Mail[M] | None:
        """Waits for a message; None if none came in time or the one that came is bad.

        Raises:
            SchemaVersionError: During the handshake, the peer has another version.
        """
        if (frame := self._transport.receive(timeout_seconds)) is None:
            return None
        try:
            magic, version, role, index = _KEYLESS.unpack_from(frame)
            if magic != _MAGIC:
                return self._drop("not a message of Hookline")
            sender = Party(Role(role), index)
            if not self._has_key(sender, frame):
                return self._drop("without the key of this engine process")
            if version != self._schema_version:
                return self._refuse(sender, version)
            return Mail(sender, self._decode(memoryview(frame)[_HEADER_SIZE:]))
        # msgspec's own errors are ValueErrors; too deep a nesting is another, and
        # a configuration checks itself.
        except (struct.error, ValueError, RecursionError, ConfigError) as error:
            return self._drop(str(error))

    def _has_key(self, sender: Party, frame: bytes) -> bool:
        key = self._keys(sender)
        return key is not None and hmac.compare_digest(key, key_in(frame))

    def _refuse(self, sender: Party, version: int) -> Mail[M] | None:
        if self.is_shaking_hands:
            raise SchemaVersionError(str(sender), version, self._schema_version)
        return self._drop(f"schema version {version} of {sender}")

    def _drop(self, reason: str) -> Mail[M] | None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th, …
            _log.warning(
                "dropped an invalid message (%s); %d so far",
                reason,
                self.dropped,
            )
        return None
