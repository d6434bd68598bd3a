"""One end of a channel between an owner and its process, on an event loop."""

import asyncio
import socket
from typing import Generic, TypeVar

import msgspec

from hookline_processes.frames import FrameBuffer, frame

M = TypeVar("M")
_CHUNK_BYTES = 1 << 18


class AsyncChannel(Generic[M]):
    """Sends and receives messages in msgpack; any task may send, one receives."""

    def __init__(
        self,
        end: socket.socket,
        decoder: msgspec.msgpack.Decoder[M],
        encoder: msgspec.msgpack.Encoder | None = None,
    ) -> None:
        """Takes over one end of a channel; nothing is read until `receive`.

        Whoever has opened it keeps it from forked children.
        """
        end.setblocking(False)
        self._end = end
        self._decode = decoder.decode
        self._encode = (encoder or msgspec.msgpack.Encoder()).encode
        self._loop = asyncio.get_running_loop()
        self._incoming = FrameBuffer()
        self._outgoing = bytearray()

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message without waiting; one to a closed end is lost.

        Raises:
            OverflowError: An integer has more than 64 bits.
            UnicodeEncodeError: A text has characters that are not Unicode's.
        """
        data = frame(self._encode(message))
        if self._end.fileno() < 0:
            return
        if not self._outgoing:
            data = data[self._write(data) :]
            if not data:
                return
            self._loop.add_writer(self._end, self._flush)
        self._outgoing += data

    async def receive(self) -> M | None:
        """Waits for a message; None once the other end is closed.

        Raises:
            ValueError: What has come is no message.
        """
        while (body := self._incoming.next()) is None:
            try:
                part = await self._loop.sock_recv(self._end, _CHUNK_BYTES)
            except OSError:
                return None
            if not part:
                return None
            self._incoming.feed(part)
        return self._decode(body)

    def close(self) -> None:
        """Closes this end; whoever waits in `receive` has to be cancelled."""
        if self._end.fileno() >= 0:
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
            self._end.close()

    def _write(self, data: bytes | bytearray) -> int:
        """Returns how much was sent; the other end's end is noticed in `receive`."""
        try:
            return self._end.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def _flush(self) -> None:
        del self._outgoing[: self._write(self._outgoing)]
        if not self._outgoing:
            self._loop.remove_writer(self._end)
