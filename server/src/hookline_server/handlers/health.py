"""Whether the process lives, and whether it can take requests: two questions."""

import msgspec
from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.context import ENGINE
from hookline_server.handlers.common import json_response, unready_reason


class Health(msgspec.Struct, frozen=True):
    """A good answer."""

    status: str


async def live(_: web.Request) -> web.Response:
    """200 as long as the process runs, whatever its engine does."""
    return json_response(Health("alive"))


async def ready(request: web.Request) -> web.Response:
    """200 while requests are taken, else 503 with the reason."""
    reason = unready_reason(request.app[ENGINE])
    if reason is not None:
        raise ApiError(503, reason, code="engine_unavailable")
    return json_response(Health("ready"))


HEALTH_ROUTES = (
    web.get("/health/live", live),
    web.get("/health/ready", ready),
    web.get("/health", ready),
)
