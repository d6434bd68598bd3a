"""Sends every response; if the client has left, its status becomes 499."""

import asyncio
import logging

from aiohttp import web

from hookline_server.errors import Handler
from hookline_server.request_identity import request_id
from hookline_server.sse import SENT_BYTES

CLIENT_LEFT = 499
"""Status of a request whose client has left, for logs and metrics."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

logger = logging.getLogger(__name__)


@web.middleware
async def send(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Sends the response to its last byte; the outermost middleware after the meter.

    aiohttp would send it after all middlewares, where failures go unnoticed.

    When a client leaves, the handler is cancelled, or a write fails before that. Both
    are caught here; the returned response is only for the access log.
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
    """Answers `Expect: 100-continue`; the `expect_handler` of routes.

    aiohttp's default runs before the middlewares, and fails if the client has left.
    """
    if request.headers["Expect"].lower() != "100-continue":
        raise web.HTTPExpectationFailed
    try:
        await request.writer.write(CONTINUE)
    except ConnectionError:
        return web.Response(status=CLIENT_LEFT)
    # These bytes are not part of the response, which may still change.
    request.writer.output_size = 0
    return None


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # it is a response, too
        return error


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
