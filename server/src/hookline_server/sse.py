"""Server-sent events and a response that streams them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from aiohttp import web

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which clients skip."""


@dataclass(slots=True)
class Sent:
    """What has been sent of a response.

    Attributes:
        num_bytes: Number of bytes of its body so far.
        first_at: When the first ones were sent, on the performance counter.
        unread_seconds: Time in which it waited for its client to read.
    """

    num_bytes: int
    first_at: float
    unread_seconds: float = 0.0


SENT: web.RequestKey[Sent] = web.RequestKey("hookline_sent", Sent)
"""What has been sent of the response to a request, once something has."""


def sent_of(request: web.Request) -> Sent:
    """Returns what has been sent of a response, which begins if nothing has."""
    if (sent := request.get(SENT)) is None:
        sent = request[SENT] = Sent(0, time.perf_counter())
    return sent


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
        self._sent: Sent | None = None
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
        response, sent = self._response, self._sent
        if sent is None and not response.prepared:
            await response.prepare(self._request)
        begun = self._loop.time()
        if data:
            if sent is None:
                sent = self._sent = sent_of(self._request)
            sent.num_bytes += len(data)
            await response.write(data)
        self._is_writing = False
        self._written_at = ended = self._loop.time()
        if sent is not None:
            sent.unread_seconds += ended - begun

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
