"""One connection to an instance, on which one request is open at a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import cast

from hookline_gateway.upstreams.connections.errors import (
    ClosedError,
    NotHttpError,
    SilentError,
)
from hookline_gateway.upstreams.connections.framing import Framing, framing_of
from hookline_gateway.upstreams.connections.head import (
    MOST_HEAD_BYTES,
    Head,
    read_head,
)

MOST_HELD_BYTES = 1 << 16
"""What is read of a body before anybody takes it."""

MOST_JOINED_BYTES = 1 << 16
"""Size of a body up to which it is sent together with its head."""

Take = Callable[[bytes], bool]
"""Gets a piece of a body; returns whether there is room for more."""

Begin = Callable[[Head, bytes], Take | None]
"""Gets an answer's head and first bytes in the call in which they come; returns who
takes the others, or None to leave them all."""


class Connection(asyncio.Protocol):
    """Sends requests, and hands the bytes of their answers on at once.

    Attributes:
        error: What has ended it; None before.
        idle_since: When its last answer was complete, on the monotonic clock.
    """

    def __init__(self, idle_timeout: float | None) -> None:
        """Limits the time in which nothing comes, if there is a limit."""
        self.error: Exception | None = None
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._idle_timeout = idle_timeout
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = 0.0
        self._transport: asyncio.Transport | None = None
        self._method = ""
        self._open = b""  # a head without its end
        self._head: Head | None = None
        self._body: Framing | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._begin: Begin | None = None
        self._take: Take | None = None
        self._is_paused = self._is_full = False
        self._news: asyncio.Future[None] | None = None

    # -- requests ----------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether the next request may be sent."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self.error is None
            and self._head is None
            and not self._open
            and not self._method
        )

    def ask(self, method: str, head: bytes, body: bytes) -> None:
        """Sends a request."""
        assert self._transport is not None
        self._method = method
        self._read_at = time.monotonic()
        if self._timer is None and self._idle_timeout is not None:
            self._timer = self._loop.call_later(self._idle_timeout, self._look)
        if len(body) <= MOST_JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def answer(self, begin: Begin | None = None) -> tuple[Head, bytes]:
        """Returns an answer's head and first bytes, as soon as these have come.

        Args:
            begin: May take the first bytes, which are not returned then.

        Raises:
            OSError: There is none.
        """
        self._begin = begin
        while self._take is None and not (self._held or self._is_complete):
            await self._change()
            if self.error is not None and self._take is None:
                raise self.error
        self._begin = None
        assert self._head is not None
        first = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        return self._head, first

    async def hand_over(
        self, take: Take, make_room: Callable[[], Awaitable[None]]
    ) -> None:
        """Hands over the rest of the body, each piece in the call in which it comes.

        Args:
            take: Gets the pieces.
            make_room: Waits until there is room again for more.

        Raises:
            OSError: It breaks off.
        """
        self._take = take
        held, self._held = self._held, []
        for piece in held:
            if not take(piece):
                self._is_full = True
        while True:
            if self._is_full:
                await make_room()
                self._is_full = False
            if self._is_complete:
                return
            self._resume()
            await self._next_news()

    def finish(self) -> None:
        """Ends with the answer, and the connection if that has not come to its end."""
        transport, head, body = self._transport, self._head, self._body
        is_reusable = (
            head is not None
            and head.keeps_alive
            and body is not None
            and body.is_complete
            and not body.rest
            and self.error is None
            and transport is not None
            and not transport.get_write_buffer_size()
        )
        self._head = self._body = self._begin = self._take = None
        self._held.clear()
        self._held_bytes = 0
        self._method = ""
        if is_reusable:
            self.idle_since = time.monotonic()
            self._resume()
        else:
            self.abort()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # -- what asyncio calls ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._body is not None and self._body.ends_by_closing and exc is None:
            self._body.is_complete = True
            self._tell()
        elif not self._is_complete:
            self._fail(exc or ClosedError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._read_at = time.monotonic()
        if self.error is not None:
            return
        try:
            body = self._body
            if body is None:
                data = self._read_head(data)
                body = self._body
                if body is None:
                    return
            piece = body.feed(data)
            if self._take is None:
                self._arrived(piece, body)
            elif piece and not self._take(piece):
                self._is_full = True
                self._pause()
                self._tell()
        except OSError as error:
            self._fail(error)
            self.abort()
            return
        if body.is_complete:
            self._tell()

    # -- its parts ---------------------------------------------------------------

    @property
    def _is_complete(self) -> bool:
        return self._body is not None and self._body.is_complete

    def _read_head(self, data: bytes) -> bytes:
        """Reads a head, after others that only announce it; returns what follows."""
        data = self._open + data
        if not self._method:
            raise NotHttpError("an answer to no request")
        while True:
            lines, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self._open = lines
                if len(lines) > MOST_HEAD_BYTES:
                    raise NotHttpError("the head is too long")
                return b""
            head = read_head(lines)
            if head.status >= 200:
                break
            if head.status == 101:
                raise NotHttpError("an upgrade that nobody asked for")
        self._open = b""
        self._head, self._body = head, framing_of(head, self._method)
        return data

    def _arrived(self, piece: bytes, body: Framing) -> None:
        """Begins with the first bytes, if somebody wants to; holds those of others."""
        begin, head = self._begin, self._head
        if not (piece or body.is_complete):
            return
        if begin is not None and head is not None:
            self._begin = None
            self._take = begin(head, piece)
            self._tell()
        if self._take is None and piece:
            self._hold(piece)

    def _hold(self, piece: bytes) -> None:
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > MOST_HELD_BYTES:
            self._pause()
        self._tell()

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._read_at = time.monotonic()
            if self._transport is not None:
                self._transport.resume_reading()

    def _look(self) -> None:
        """Fails if nothing has come in time, though somebody waits for it."""
        self._timer = None
        if not self._method or self._idle_timeout is None:
            return
        now = time.monotonic()
        left = self._read_at + self._idle_timeout - now
        if self._is_paused:
            left = self._idle_timeout
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        self._fail(SilentError(f"nothing came for {self._idle_timeout:g} s"))
        self.abort()

    def _fail(self, error: Exception) -> None:
        self.error = self.error or error
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _next_news(self) -> None:
        """Waits until something has changed.

        Raises:
            OSError: It is an error.
        """
        await self._change()
        if self.error is not None:
            raise self.error

    async def _change(self) -> None:
        """Waits until something has changed, if there is no error already."""
        if self.error is None:
            self._news = self._loop.create_future()
            await self._news
