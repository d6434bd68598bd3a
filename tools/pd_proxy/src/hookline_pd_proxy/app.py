"""Builds the proxy's application."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from aiohttp import web

from hookline_gateway.upstreams.asking import Upstream, new_session
from hookline_gateway.upstreams.connections.connections import Connections
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.pool import Pool
from hookline_gateway.upstreams.watch import look, watched
from hookline_pd_proxy.instances_file import InstancesFile
from hookline_pd_proxy.numbers import CONTENT_TYPE, Numbers
from hookline_pd_proxy.pools import Pools, Role
from hookline_pd_proxy.proxy import Proxy
from hookline_pd_proxy.settings import RouteSettings
from hookline_pd_proxy.tracing import Tracing
from hookline_server.api_error import ApiError
from hookline_server.browser_guard import BrowserGuard
from hookline_server.errors import answer_errors, shape_error
from hookline_server.handlers.common import json_response
from hookline_server.handlers.health import Health, live
from hookline_server.leftovers import close_if_long
from hookline_server.request_body import HANDLER_ARGS
from hookline_server.request_identity import echo_request_id
from hookline_server.sending import send

SPAN_SECONDS = 2.0
"""Time at the end to send the last spans."""

PASSED_ON = ("/v1/{path:.+}", "/tokenize", "/detokenize", "/version")

PROXY: web.AppKey[Proxy] = web.AppKey("hookline_route_proxy", Proxy)
POOLS: web.AppKey[Pools] = web.AppKey("hookline_route_pools", Pools)
_SETTINGS: web.AppKey[RouteSettings] = web.AppKey("hookline_route", RouteSettings)
_TRACING: web.AppKey[Tracing] = web.AppKey("hookline_route_tracing", Tracing)
_FILE: web.AppKey[InstancesFile] = web.AppKey("hookline_route_file", InstancesFile)
_NUMBERS: web.AppKey[Numbers] = web.AppKey("hookline_route_numbers", Numbers)


def create_route(
    settings: RouteSettings, tracing: Tracing | None = None
) -> web.Application:
    """Returns a proxy that watches its instances while it is served.

    Run it with `handler_cancellation=True`, which cancels requests of clients that
    disconnect.

    Args:
        settings: Its options.
        tracing: Makes its spans; None follows the options.

    Raises:
        ConfigError: Spans cannot be sent as the options say, or the file of instances
            names none.
    """
    guard = BrowserGuard((settings.host,), settings.pages)
    app = web.Application(
        middlewares=(send, answer_errors, guard.middleware),
        client_max_size=settings.max_body_bytes,
        handler_args=HANDLER_ARGS,
    )
    app[_SETTINGS], app[_TRACING] = settings, tracing or Tracing.of(settings)
    app[_NUMBERS] = Numbers()
    app[POOLS] = Pools(_pool(Role.PREFILL, settings), _pool(Role.DECODE, settings))
    if settings.instances_file is not None:
        file = InstancesFile(settings.instances_file, settings.poll_seconds)
        file.apply(app[POOLS])
        app[_FILE] = file
    app.cleanup_ctx.append(_connected)
    app.on_response_prepare.append(shape_error)
    app.on_response_prepare.append(echo_request_id)
    app.on_response_prepare.append(close_if_long)
    for path in ("/v1/completions", "/v1/chat/completions"):
        app.router.add_post(path, _complete)
    for path in PASSED_ON:
        app.router.add_route("*", path, _pass_on)
    app.router.add_get("/health/live", live)
    for path in ("/health", "/health/ready"):
        app.router.add_get(path, _ready)
    app.router.add_get("/metrics", _metrics)
    return app


def _pool(role: Role, settings: RouteSettings) -> Pool:
    urls = settings.prefill if role is Role.PREFILL else settings.decode
    return Pool(
        [Instance(role, url, poll_seconds=settings.poll_seconds) for url in urls],
        role,
    )


async def _connected(app: web.Application) -> AsyncIterator[None]:
    settings, pools, file = app[_SETTINGS], app[POOLS], app.get(_FILE)
    connections = Connections(settings.connect_timeout)
    async with (
        new_session(settings.connect_timeout) as session,
        watched(
            lambda: pools.instances,
            partial(look, session=session, key=settings.instance_key),
            settings.poll_seconds,
            None if file is None else partial(file.apply, pools),
        ),
    ):
        upstream = Upstream(connections)
        proxy = Proxy(pools, upstream, settings, app[_NUMBERS], app[_TRACING])
        app[PROXY] = proxy
        yield
        await proxy.close()
        connections.close()
    await asyncio.to_thread(app[_TRACING].close, SPAN_SECONDS)


async def _complete(request: web.Request) -> web.StreamResponse:
    return await request.app[PROXY].complete(request)


async def _pass_on(request: web.Request) -> web.StreamResponse:
    return await request.app[PROXY].pass_on(request)


async def _ready(request: web.Request) -> web.Response:
    """Answers 200 while a decode instance is up that has answered since it came."""
    if request.app[PROXY].open.is_leaving:
        raise ApiError(503, "the proxy is shutting down", code="aborted")
    if not request.app[POOLS].decode.is_ready:
        raise ApiError(503, "no decode instance is up", code="no_instance")
    return json_response(Health("ready"))


async def _metrics(request: web.Request) -> web.Response:
    page = request.app[_NUMBERS].page(request.app[POOLS].instances)
    return web.Response(body=page.encode(), headers={"Content-Type": CONTENT_TYPE})
