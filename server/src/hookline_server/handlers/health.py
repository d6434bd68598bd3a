"""Liveness and readiness of the server."""

import msgspec
from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.context import ENGINE
from hookline_server.handlers.common import json_response, unready_reason


class Health(msgspec.Struct, frozen=True):
    """The response of a healthy server."""

    status: str


async def live(_: web.Request) -> web.Response:
    """Returns 200 as long as the process runs, regardless of its engine."""
    return json_response(Health("alive"))


async def ready(request: web.Request) -> web.Response:
    """Returns 200 while requests are accepted, otherwise 503 with the reason."""
    reason = unready_reason(request.app[ENGINE])
    if reason is not None:
        raise ApiError(503, reason, code="engine_unavailable")
    return json_response(Health("ready"))


HEALTH_ROUTES = (
    web.get("/health/live", live),
    web.get("/health/ready", ready),
    web.get("/health", ready),
)
