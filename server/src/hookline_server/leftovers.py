"""Bodies that nobody reads: a little of them is discarded, then the connection ends.

A client that gets no answer before it has sent its body would see a broken connection;
discarding a moderate body lets it read the error, and use the connection again.
"""

import asyncio

from aiohttp import web

from hookline_server.connections.chunk_meter import FramingError

MOST_BYTES = 1024 * 1024
MOST_SECONDS = 1.0

MOST_BYTES_OF_CLIENTS = 32 * MOST_BYTES
"""The same if the client may use the server, such as after a 413."""

_STRANGERS = frozenset({401, 403, 429})
"""Statuses of clients that may not."""


async def close_if_long(request: web.Request, response: web.StreamResponse) -> None:
    """Announces the end of the connection, if too much of a body may be left.

    For an application's `on_response_prepare`.
    """
    if request.content.is_eof():
        return
    length = request.content_length
    if length is None or length > MOST_BYTES:
        response.headers["Connection"] = "close"
        response.force_close()


async def discard(request: web.BaseRequest, status: int) -> None:
    """Reads what is left of a body, within limits; call it after the response."""
    body = request.content
    if isinstance(body.exception(), FramingError):
        # The connection hears nothing more; a client that sends may see the answer.
        await asyncio.sleep(MOST_SECONDS)
        return
    if body.is_eof() or body.exception() is not None:
        return
    left = MOST_BYTES if status in _STRANGERS else MOST_BYTES_OF_CLIENTS
    try:
        async with asyncio.timeout(MOST_SECONDS):
            while left > 0 and not body.is_eof():
                left -= len(await body.readany())
    except (TimeoutError, ConnectionError, web.RequestPayloadError):
        return  # the connection ends
