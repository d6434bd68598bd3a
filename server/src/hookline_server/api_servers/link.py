"""A private channel between the parent and one API server: framed messages."""

import asyncio
import socket
import struct
from typing import Generic, TypeVar

import msgspec

from hookline.frozen import plain

M = TypeVar("M")

MOST_BYTES = 1 << 28
_LENGTH = struct.Struct("<I")


class Link(Generic[M]):
    """One end of a channel; for one event loop.

    Any task may send, one at a time receives.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: msgspec.msgpack.Decoder[M],
    ) -> None:
        """Takes over an open stream."""
        self._reader = reader
        self._writer = writer
        self._decode = decoder.decode
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain).encode

    @classmethod
    async def over(
        cls, end: socket.socket, decoder: msgspec.msgpack.Decoder[M]
    ) -> "Link[M]":
        """Makes a channel of one end of a socket pair, and takes it over."""
        end.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=end)
        return cls(reader, writer, decoder)

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message without waiting; one to a closed end is lost."""
        body = self._encode(message)
        if not self._writer.is_closing():
            self._writer.write(_LENGTH.pack(len(body)) + body)

    async def receive(self) -> M | None:
        """Waits for a message; None once the other end is closed."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > MOST_BYTES:
                return None
            return self._decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        """Closes this end."""
        self._writer.close()
