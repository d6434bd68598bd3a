"""Builds the gateway's application."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from aiohttp import web

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.frontend.observation import Observers
from hookline_gateway.gateway import Gateway
from hookline_gateway.measuring.books import Books
from hookline_gateway.models import look_at_models
from hookline_gateway.settings import Balance, GatewaySettings
from hookline_gateway.upstreams.asking import Upstream, new_session
from hookline_gateway.upstreams.connections.connections import Connections
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.pool import Pool
from hookline_gateway.upstreams.watch import look, watched
from hookline_server.auth.key import Scope
from hookline_server.auth.route_scopes import ROUTE_SCOPES, RouteScopes
from hookline_server.browser_guard import BrowserGuard
from hookline_server.dialects import COUNTED_PATHS
from hookline_server.errors import answer_errors, shape_error
from hookline_server.handlers.health import live
from hookline_server.http_meter import HttpMeter
from hookline_server.leftovers import close_if_long
from hookline_server.page_counts import PageCounts
from hookline_server.page_news import PageNews
from hookline_server.pages import Pages
from hookline_server.request_body import HANDLER_ARGS
from hookline_server.request_identity import echo_request_id
from hookline_server.sending import send

FIRST_LOOK_SECONDS = 0.5
"""Time at the start for the upstreams to tell what they are; later is right, too."""

POLLS_OF_MODELS = 10
"""Polls of an upstream's load for one of its models."""

CLOSE_SECONDS = 5.0
"""Time at the end for the loggers."""

Context = Callable[[web.Application], AsyncIterator[None]]

GATEWAY: web.AppKey[Gateway] = web.AppKey("hookline_gateway", Gateway)


def create_gateway(
    settings: GatewaySettings, config: EngineConfig, clock: Clock | None = None
) -> web.Application:
    """Returns a gateway that watches its upstreams while it is served.

    Run it with `handler_cancellation=True`, which cancels requests of clients that
    disconnect.

    Args:
        settings: Its options.
        config: Those of the loggers and the metrics.
        clock: Takes all times; the system's if None.

    Raises:
        ConfigError: An option of a logger does not fit.
        RegistryError: A logger is unknown or broken.
    """
    observers = Observers(config)
    instances = [
        Instance("upstream", url, poll_seconds=settings.poll_seconds)
        for url in settings.upstream
    ]
    books = Books(instances, observers, config.observers, clock)
    in_turn = settings.balance == Balance.ROUND_ROBIN
    pool = Pool(instances, in_turn=in_turn)
    counts = PageCounts()
    meter = HttpMeter(books, counts.stats)
    guard = BrowserGuard((settings.host,), settings.pages)
    app = web.Application(
        middlewares=(meter.middleware, send, answer_errors, guard.middleware),
        client_max_size=settings.max_body_bytes,
        handler_args=HANDLER_ARGS,
    )
    app[ROUTE_SCOPES] = RouteScopes(Scope.METRICS)
    app.cleanup_ctx.append(_closed(observers))
    app.cleanup_ctx.append(_connected(settings, pool, books))
    app.cleanup_ctx.append(meter.lifetime)
    news = PageNews(books, meter)
    app.cleanup_ctx.append(news.lifetime)
    for signal in (shape_error, echo_request_id, close_if_long):
        app.on_response_prepare.append(signal)
    pages = Pages(app, counts, observers.settle)
    observers.add_routes(pages.of, news.tell)
    _add_routes(app)
    return app


def _add_routes(app: web.Application) -> None:
    app.router.add_get("/health/live", live)
    for path in ("/health", "/health/ready"):
        app.router.add_get(path, _ready)
    app.router.add_get("/v1/models", _list_models)
    # They are named in the metrics of HTTP; all other paths are one.
    for path in sorted(COUNTED_PATHS):
        app.router.add_route("*", path, _forward)
    app.router.add_route("*", "/{path:.*}", _forward)


def _closed(observers: Observers) -> Context:
    async def closed(_: web.Application) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(observers.close, CLOSE_SECONDS)

    return closed


def _connected(settings: GatewaySettings, pool: Pool, books: Books) -> Context:
    async def connected(app: web.Application) -> AsyncIterator[None]:
        connections = Connections(settings.connect_timeout, settings.idle_timeout)
        async with new_session(settings.connect_timeout) as session:
            polls = Counter[Instance]()

            async def look_at(instance: Instance) -> None:
                key, was_seen = settings.instance_key, instance.is_seen
                await look(instance, session, key)
                polls[instance] += 1
                is_due = not was_seen or polls[instance] % POLLS_OF_MODELS == 0
                if instance.is_seen and is_due:
                    await look_at_models(instance, session, key)
                books.looked(instance)

            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LOOK_SECONDS):
                    await asyncio.gather(*map(look_at, pool.instances))
            for instance in pool.instances:
                books.looked(instance)
            async with watched(lambda: pool.instances, look_at, settings.poll_seconds):
                app[GATEWAY] = Gateway(pool, Upstream(connections), settings, books)
                yield
            connections.close()
        books.close()

    return connected


async def _forward(request: web.Request) -> web.StreamResponse:
    return await request.app[GATEWAY].forward(request)


async def _list_models(request: web.Request) -> web.StreamResponse:
    return await request.app[GATEWAY].list_models(request)


async def _ready(request: web.Request) -> web.Response:
    return await request.app[GATEWAY].ready(request)
