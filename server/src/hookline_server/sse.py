"""Server-sent events: their bytes, and a response that carries them."""

from collections.abc import Iterable

from aiohttp import web

DONE = b"data: [DONE]\n\n"

SENT_BYTES: web.RequestKey[int] = web.RequestKey("hookline_sent_bytes", int)
"""Length of the body that has been sent for a request so far."""


def event(data: bytes) -> bytes:
    """One event; JSON never holds a line break, so one line is enough."""
    return b"data: " + data + b"\n\n"


class EventResponse:
    """A streamed response whose headers leave with its first events.

    Until then an error can still be answered with a status of its own.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                # Keeps nginx from holding events back.
                "X-Accel-Buffering": "no",
            }
        )

    @property
    def has_started(self) -> bool:
        """Whether the headers have left."""
        return self._response.prepared

    async def send(self, payloads: Iterable[bytes]) -> None:
        """Sends several events in one write, at the pace of the reader."""
        await self.write(b"".join(event(payload) for payload in payloads))

    async def finish(self) -> web.StreamResponse:
        """Sends the terminator and ends the response."""
        await self.write(DONE)
        return await self.end()

    async def end(self) -> web.StreamResponse:
        """Ends the response."""
        await self.write(b"")
        await self._response.write_eof()
        return self._response

    async def write(self, data: bytes) -> None:
        """Sends the bytes of whole events, after the headers if they are the first."""
        if not self._response.prepared:
            await self._response.prepare(self._request)
        if data:
            sent = self._request.get(SENT_BYTES, 0)
            self._request[SENT_BYTES] = sent + len(data)
            await self._response.write(data)
