"""Typed messages over a transport: encodes, checks the schema version, decodes."""

import logging
import struct
from typing import Generic, NamedTuple, TypeVar

import msgspec

from hookline.core.commands import SCHEMA_VERSION
from hookline.exceptions import SchemaVersionError
from hookline.transport.transport import Party, Role, Transport

M = TypeVar("M")
_MAGIC = b"hkln"
_HEADER = struct.Struct("<4sHBI")
"""Magic, schema version, and the sender's role and index; the same in every version."""
_log = logging.getLogger(__name__)


class Mail(NamedTuple, Generic[M]):
    """A message and its sender."""

    sender: Party
    message: M


class Mailbox(Generic[M]):
    """One party's messages; `send` and `receive` may run in two threads.

    Attributes:
        is_shaking_hands: While True, a message of another schema version is an error;
            later it is dropped.
        dropped: Messages dropped because they could not be understood.
    """

    def __init__(
        self,
        transport: Transport,
        party: Party,
        decoder: msgspec.msgpack.Decoder[M],
        *,
        schema_version: int = SCHEMA_VERSION,
    ) -> None:
        self.is_shaking_hands = True
        self.dropped = 0
        self._transport = transport
        self._schema_version = schema_version
        header = _HEADER.pack(_MAGIC, schema_version, party.role, party.index)
        self._frame = bytearray(header)
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._decode = decoder.decode

    def send(
        self, receiver: Party, message: msgspec.Struct, *, waits: bool = True
    ) -> bool:
        """Sends a message to a connected peer; see `Transport.send`."""
        self._encode_into(message, self._frame, _HEADER.size)
        return self._transport.send(receiver, self._frame, waits=waits)

    def receive(self, timeout_seconds: float) -> Mail[M] | None:
        """Waits for a message; None if none came in time or the one that came is bad.

        Raises:
            SchemaVersionError: During the handshake, the peer has another version.
        """
        if (frame := self._transport.receive(timeout_seconds)) is None:
            return None
        try:
            magic, version, role, index = _HEADER.unpack_from(frame)
            if magic != _MAGIC:
                return self._drop("not a message of Hookline")
            sender = Party(Role(role), index)
            if version != self._schema_version:
                return self._refuse(sender, version)
            return Mail(sender, self._decode(memoryview(frame)[_HEADER.size :]))
        except (struct.error, ValueError) as error:  # msgspec's errors are ValueErrors
            return self._drop(str(error))

    def _refuse(self, sender: Party, version: int) -> Mail[M] | None:
        if self.is_shaking_hands:
            raise SchemaVersionError(str(sender), version, self._schema_version)
        return self._drop(f"schema version {version} of {sender}")

    def _drop(self, reason: str) -> Mail[M] | None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th, …
            _log.warning(
                "dropped a message that cannot be understood (%s); %d so far",
                reason,
                self.dropped,
            )
        return None
