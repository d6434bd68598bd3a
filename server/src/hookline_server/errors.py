"""Converts every error response to the format of OpenAI's or Anthropic's API."""

from collections.abc import Awaitable, Callable
from typing import get_args

from aiohttp import web

from hookline.exceptions import CommandError, EngineDeadError, RequestError
from hookline_server.api_error import ApiError, as_api_error, body_too_large
from hookline_server.dialects import dialect_of
from hookline_server.request_identity import identity_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answered = (
    ApiError
    | RequestError
    | CommandError
    | EngineDeadError
    | web.HTTPRequestEntityTooLarge
)
ANSWERED = get_args(Answered)
"""The errors that handlers raise deliberately."""


def error_response(request: web.Request, error: ApiError) -> web.Response:
    """Returns an error as a complete response."""
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    return web.Response(
        status=error.status,
        headers=headers,
        body=dialect_of(request).error(error, identity_of(request).request_id),
        content_type="application/json",
    )


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Converts errors that handlers raise deliberately to responses."""
    try:
        return await handler(request)
    except ANSWERED as error:
        return answer(request, error)


def answer(request: web.Request, error: Answered) -> web.Response:
    """Returns the response to an error that a handler raised deliberately."""
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        # As a response, the exception would keep its traceback, and so the body.
        return error_response(request, body_too_large(request.client_max_size))
    response = error_response(request, as_api_error(error))
    if response.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if request.content.exception() is not None:
        # The rest of the body is lost, and with it the start of the next request.
        response.force_close()
    return response


async def shape_error(request: web.Request, response: web.StreamResponse) -> None:
    """Rewrites aiohttp's own error responses just before they are sent.

    They are for unknown routes, wrong methods, bodies that are too large, and
    unexpected exceptions, which aiohttp has logged with a traceback.
    """
    if response.status < 400 or not isinstance(response, web.Response):
        return
    if response.content_type == "application/json" or isinstance(response, Page):
        return
    error = _own_error(request, response.status)
    body = dialect_of(request).error(error, identity_of(request).request_id)
    response.body = body
    response.content_type = "application/json"
    # The header still has the length of aiohttp's body.
    response.headers["Content-Length"] = str(len(body))


class Page(web.Response):
    """A plugin's page, which is sent unchanged, errors included."""


def _own_error(request: web.Request, status: int) -> ApiError:
    if status == 404:
        message = f"{request.path} does not exist"
        return ApiError(404, message, code="route_not_found")
    if status == 405:
        message = f"{request.path} does not support {request.method}"
        return ApiError(405, message, code="method_not_allowed")
    if status == 413:
        return body_too_large(request.client_max_size)
    if status >= 500:
        message = "internal error; see the server's log"
        return ApiError(status, message, code="internal_error")
    return ApiError(status, "the request cannot be served", code="invalid_request")
