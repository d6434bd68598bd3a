"""Sends every response; if the client has left, its status becomes 499."""

import asyncio
import logging
import time

from aiohttp import web

from hookline.payloads import CLIENT_LEFT
from hookline_server.api_error import ApiError
from hookline_server.auth.route_scopes import LIVENESS
from hookline_server.connections.connection import Connection
from hookline_server.errors import Handler, error_response
from hookline_server.request_identity import CURRENT, identity_of
from hookline_server.sse import SENT, Sent

logger = logging.getLogger(__name__)


@web.middleware
async def send(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Sends the response to its last byte; the outermost middleware after the meter.

    aiohttp would send it after all middlewares, where failures go unnoticed.

    When a client leaves, the handler is cancelled, or a write fails before that. Both
    are caught here; the returned response is only for the access log.
    """
    identity = identity_of(request)
    CURRENT.set(identity)
    connection = request.protocol
    last = None
    if isinstance(connection, Connection) and connection.is_last_request:
        last = connection
    try:
        try:
            refused = None if last is None else _refusal(last, request)
            response = await handler(request) if refused is None else refused
        except web.HTTPException as error:  # it is a response, too
            if error.status == web.HTTPRequestEntityTooLarge.status_code:
                error.force_close()
            response = error
        if last is not None and last.is_last_request:
            response.force_close()
        begun = time.perf_counter()
        await response.prepare(request)
        await response.write_eof()
    except (asyncio.CancelledError, ConnectionError):
        if not _has_left(request):
            raise
        logger.info("the client of %s left", identity.request_id)
        return web.Response(status=CLIENT_LEFT)
    if isinstance(response, web.Response) and request.method != "HEAD":
        unread = time.perf_counter() - begun
        request[SENT] = Sent(response.content_length or 0, begun, unread)
    if isinstance(response, web.HTTPException):
        raise response
    return response


def _refusal(connection: Connection, request: web.Request) -> web.Response | None:
    """Returns the answer to the last request of a connection if it is one too many."""
    is_probe = request.path in LIVENESS
    if not connection.is_extra or is_probe or connection.becomes_regular():
        return None
    connection.refused()
    return error_response(
        request,
        ApiError(
            503,
            "too many connections are open; try again later",
            code="too_many_connections",
            retry_after_seconds=1,
        ),
    )


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
