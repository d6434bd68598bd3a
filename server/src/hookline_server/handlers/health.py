"""Liveness, readiness and deep health of the server.

Kubernetes' names are served, too, SageMaker's `/ping` and SGLang's `/health_generate`.
"""

import msgspec
from aiohttp import hdrs, web

from hookline_server.api_error import ApiError
from hookline_server.context import (
    DEEP_HEALTH,
    DEPARTURE,
    ENGINE,
    PAGE_PATHS,
    REMOTE_PAGES,
)
from hookline_server.handlers.common import json_response, unready_reason
from hookline_server.openapi.operation import Operation, Tag, described
from hookline_server.probe import ProbeOutcome


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response of a healthy server, and why its observer process does not answer.

    Requests are served without that process.
    """

    status: str
    observer: str | None = None


class EngineProbe(msgspec.Struct, frozen=True):
    """The probe of one engine: `token`, `busy`, `asleep` or `failed`."""

    engine: int
    outcome: str
    seconds: float


class DeepHealthy(msgspec.Struct, frozen=True):
    """The response of a server whose engines have all passed their probes."""

    status: str
    engines: list[EngineProbe]


@described(Operation(tag=Tag.HEALTH, answer=Health))
async def live(request: web.Request) -> web.Response:
    """Returns 200 as long as the event loop turns, regardless of the engine."""
    page = f"{request.path}/"
    is_browser = "text/html" in request.headers.get(hdrs.ACCEPT, "")
    if is_browser and page in request.app.get(PAGE_PATHS, ()):
        raise web.HTTPTemporaryRedirect(page)  # somebody looks for the live view
    return json_response(Health("alive"))


@described(Operation(tag=Tag.HEALTH, answer=Health, errors=(503,)))
async def health(request: web.Request) -> web.Response:
    """Returns 200 while the engine works, asleep or not; otherwise 503."""
    engine = request.app[ENGINE]
    _check(engine.ailment or _departure(request) or unready_reason(engine))
    pages = request.app.get(REMOTE_PAGES)
    return json_response(Health("healthy", None if pages is None else pages.obstacle))


@described(Operation(tag=Tag.HEALTH, answer=Health, errors=(503,)))
async def ready(request: web.Request) -> web.Response:
    """Returns 200 while requests are accepted and computed, otherwise 503."""
    engine = request.app[ENGINE]
    asleep = "the engine is asleep" if engine.is_asleep else None
    _check(engine.ailment or _departure(request) or unready_reason(engine) or asleep)
    return json_response(Health("ready"))


@described(Operation(tag=Tag.HEALTH, answer=DeepHealthy, errors=(503,)))
async def deep(request: web.Request) -> web.Response:
    """Lets each live engine generate a token; returns 503 if one does not."""
    engine = request.app[ENGINE]
    _check(engine.ailment)
    results = await request.app[DEEP_HEALTH].results()
    failed = [each for each in results if each.outcome is ProbeOutcome.FAILED]
    if failed:
        reasons = [f"engine {each.engine_index}: {each.detail}" for each in failed]
        _check("; ".join(reasons))
    probes = [
        EngineProbe(each.engine_index, each.outcome.value, each.seconds)
        for each in results
    ]
    return json_response(DeepHealthy("healthy", probes))


LIVE_PATHS = ("/health/live", "/live", "/livez")
LIVE_ROUTES = tuple(web.get(path, live) for path in LIVE_PATHS)
HEALTH_ROUTES = (
    *LIVE_ROUTES,
    *[web.get(path, ready) for path in ("/health/ready", "/ready", "/readyz")],
    *[web.get(path, health) for path in ("/health", "/ping")],
    web.post("/ping", health),
)
DEEP_HEALTH_ROUTES = (web.get("/health/deep", deep), web.get("/health_generate", deep))


def _departure(request: web.Request) -> str | None:
    leaves = request.app[DEPARTURE].is_announced
    return "the server is shutting down" if leaves else None


def _check(obstacle: str | None) -> None:
    if obstacle is not None:
        raise ApiError(503, obstacle, code="engine_unavailable")
