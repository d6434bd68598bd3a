"""The application that answers while the model loads: alive, but not ready."""

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.errors import answer_errors
from hookline_server.handlers.health import live
from hookline_server.request_identity import echo_request_id
from hookline_server.sending import confirm, send


def create_loading_app() -> web.Application:
    """Returns the application that serves until the engine has started."""
    app = web.Application(middlewares=(send, answer_errors))
    app.on_response_prepare.append(echo_request_id)
    app.on_response_prepare.append(_close_connection)
    app.router.add_get("/health/live", live)
    app.router.add_route("*", "/{path:.*}", _not_yet, expect_handler=confirm)
    return app


async def _not_yet(_: web.Request) -> web.StreamResponse:
    raise ApiError(503, "the model is loading", code="loading")


async def _close_connection(_: web.Request, response: web.StreamResponse) -> None:
    # No keep-alive, so that the next request reaches the real server.
    response.headers["Connection"] = "close"
    response.force_close()
