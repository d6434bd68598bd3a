"""Sends every response, and makes a 499 of each that no client waits for any more."""

import asyncio
import logging

from aiohttp import web

from hookline_server.errors import Handler
from hookline_server.request_identity import request_id
from hookline_server.sse import SENT_BYTES

CLIENT_LEFT = 499
"""The status, which no client sees, of a request whose client has left."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

logger = logging.getLogger(__name__)


@web.middleware
async def send(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Sends the response to its last byte; to be outside of all that makes one.

    Otherwise aiohttp sends it after all middlewares, where nobody learns how that went.

    A client's leaving comes as a cancellation, or, while the connection closes and the
    cancellation is on its way, as an error of whoever writes. Either ends here: what
    is returned then goes nowhere, but it has the status for the access log.
    """
    try:
        response = await _answer(request, handler)
        await response.prepare(request)
        await response.write_eof()
    except (asyncio.CancelledError, ConnectionError):
        if not _has_left(request):
            raise
        logger.info("the client of %s left", request_id(request))
        return web.Response(status=CLIENT_LEFT)
    if isinstance(response, web.Response) and request.method != "HEAD":
        request[SENT_BYTES] = response.content_length or 0
    if isinstance(response, web.HTTPException):
        raise response
    return response


async def confirm(request: web.Request) -> web.StreamResponse | None:
    """Tells a client that asks before it sends a body to go on; a route's handler.

    aiohttp's own, which runs before the middlewares, makes an error of a client that
    has left.
    """
    if request.headers["Expect"].lower() != "100-continue":
        raise web.HTTPExpectationFailed
    try:
        await request.writer.write(CONTINUE)
    except ConnectionError:
        return web.Response(status=CLIENT_LEFT)
    # These bytes are no part of the response: it can still become another.
    request.writer.output_size = 0
    return None


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # which is a response too
        return error


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
