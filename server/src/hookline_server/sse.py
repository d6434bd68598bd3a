"""Server-sent events and a response that streams them."""

from aiohttp import web

DONE = b"data: [DONE]\n\n"

SENT_BYTES: web.RequestKey[int] = web.RequestKey("hookline_sent_bytes", int)
"""Number of body bytes sent for a request so far."""


def event(data: bytes) -> bytes:
    """Returns an event; `data` must not contain line breaks, which JSON never does."""
    return b"data: " + data + b"\n\n"


class EventResponse:
    """A streamed response whose headers are sent with its first events.

    Until then an error can still have its own status.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                # Disables nginx's buffering.
                "X-Accel-Buffering": "no",
            }
        )

    @property
    def has_started(self) -> bool:
        """Whether the headers have been sent."""
        return self._response.prepared

    async def write_eof(self) -> web.StreamResponse:
        """Ends the response."""
        await self.write(b"")
        await self._response.write_eof()
        return self._response

    async def write(self, data: bytes) -> None:
        """Sends the bytes of whole events in one write, after the headers.

        Waits if the client reads slowly.
        """
        if not self._response.prepared:
            await self._response.prepare(self._request)
        if data:
            sent = self._request.get(SENT_BYTES, 0)
            self._request[SENT_BYTES] = sent + len(data)
            await self._response.write(data)
