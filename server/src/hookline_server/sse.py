"""Server-sent events and a response that streams them."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which clients skip."""

SENT_BYTES: web.RequestKey[int] = web.RequestKey("hookline_sent_bytes", int)
"""Number of body bytes sent for a request so far."""


FIRST_SECONDS = 5.0
"""Maximum silence before the headers of a stream that is kept alive.

Clients and proxies wait less for headers than for what follows them.
"""
_SLACK_SECONDS = 0.01


class KeepAlive(NamedTuple):
    """What is sent in a stream that waits.

    Attributes:
        data: Returns what is sent.
        seconds: Maximum silence.
        sent: Called whenever it has been sent.
    """

    data: Callable[[], bytes]
    seconds: float
    sent: Callable[[], None]


def event(data: bytes) -> bytes:
    """Returns an event; `data` must not contain line breaks, which JSON never does."""
    return b"data: " + data + b"\n\n"


class EventResponse:
    """A streamed response whose headers are sent with its first bytes.

    Until then an error can still have its own status.
    """

    def __init__(
        self, request: web.Request, keep_alive: KeepAlive | None = None
    ) -> None:
        """Sends nothing yet, but what keeps it alive until `stop_keep_alive`."""
        self._request = request
        self._response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                # Disables nginx's buffering.
                "X-Accel-Buffering": "no",
            }
        )
        self._loop = asyncio.get_running_loop()
        self._written_at: float | None = None
        self._is_writing = False
        self._keep_alive = keep_alive
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        if keep_alive is not None:
            first = min(keep_alive.seconds, FIRST_SECONDS)
            self._timer = self._loop.call_later(first, self._look, keep_alive)

    @property
    def has_started(self) -> bool:
        """Whether the headers have been sent."""
        return self._response.prepared

    async def write_eof(self) -> web.StreamResponse:
        """Ends the response."""
        self.stop_keep_alive()
        await self.write(b"")
        await self._response.write_eof()
        return self._response

    async def write(self, data: bytes) -> None:
        """Sends the bytes of whole events in one write, after the headers.

        Waits if the client reads slowly.
        """
        sending = self._sending
        if sending is not None and sending is not asyncio.current_task():
            await asyncio.wait((sending,))
        self._is_writing = True
        if not self._response.prepared:
            await self._response.prepare(self._request)
        if data:
            sent = self._request.get(SENT_BYTES, 0)
            self._request[SENT_BYTES] = sent + len(data)
            await self._response.write(data)
        self._is_writing = False
        self._written_at = self._loop.time()

    def stop_keep_alive(self) -> None:
        """Sends nothing more by itself; may be called twice."""
        self._keep_alive = None
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()  # what has been written stays

    def _look(self, keep_alive: KeepAlive) -> None:
        """Sends something if it is time; else looks again when it may be."""
        now = self._loop.time()
        due = now if self._written_at is None else self._written_at + keep_alive.seconds
        if self._is_writing:  # as far as the client reads
            due = now + keep_alive.seconds
        if due > now + _SLACK_SECONDS:
            self._timer = self._loop.call_at(due, self._look, keep_alive)
        else:
            self._sending = self._loop.create_task(self._send(keep_alive))

    async def _send(self, keep_alive: KeepAlive) -> None:
        try:
            await self.write(keep_alive.data())
        except ConnectionError:  # the handler is cancelled, too
            return
        finally:
            self._sending = None
        keep_alive.sent()
        if self._keep_alive is not None:
            self._timer = self._loop.call_later(
                keep_alive.seconds, self._look, keep_alive
            )
