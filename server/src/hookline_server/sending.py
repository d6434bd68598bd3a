"""Sends every response; if the client has left, its status becomes 499."""

import asyncio
import logging

from aiohttp import web

from hookline.payloads import CLIENT_LEFT
from hookline_server.api_error import ApiError
from hookline_server.auth.route_scopes import LIVENESS
from hookline_server.connections.connection import Connection
from hookline_server.errors import Handler, error_response
from hookline_server.logs.current_request import enter_request
from hookline_server.request_ids import request_id
from hookline_server.sse import SENT_BYTES

logger = logging.getLogger(__name__)


@web.middleware
async def send(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Sends the response to its last byte; the outermost middleware after the meter.

    aiohttp would send it after all middlewares, where failures go unnoticed.

    When a client leaves, the handler is cancelled, or a write fails before that. Both
    are caught here; the returned response is only for the access log.
    """
    connection = request.protocol
    enter_request(request)
    try:
        if isinstance(connection, Connection) and connection.is_last_request:
            response = await _last_answer(connection, request, handler)
        else:
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


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # it is a response, too
        if error.status == web.HTTPRequestEntityTooLarge.status_code:
            error.force_close()
        return error


async def _last_answer(
    connection: Connection, request: web.Request, handler: Handler
) -> web.StreamResponse:
    """Answers the last request of a connection, which may be one too many."""
    is_probe = request.path in LIVENESS
    if connection.is_extra and not is_probe and not connection.becomes_regular():
        connection.refused()
        response: web.StreamResponse = error_response(
            request,
            ApiError(
                503,
                "too many connections are open; try again later",
                code="too_many_connections",
                retry_after_seconds=1,
            ),
        )
    else:
        response = await _answer(request, handler)
    if connection.is_last_request:
        response.force_close()
    return response


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
