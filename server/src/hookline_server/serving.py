"""The life cycle of a server process: load, serve until a signal, drain, end."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from aiohttp import web

from hookline_server.api_servers.shared_parts import SharedParts
from hookline_server.app import create_app
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.background import in_background
from hookline_server.connections.pool import ConnectionPool
from hookline_server.context import (
    DEPARTURE,
    OPEN_STREAMS,
    PARSERS,
    RESPONSE_STORE,
    key_ring,
)
from hookline_server.engine import ServingEngine
from hookline_server.ignored import IGNORED
from hookline_server.listening import Listening, server_address
from hookline_server.loading import loading_apps
from hookline_server.pages_app import PAGES_APP
from hookline_server.request_body import UNKNOWN_FIELDS
from hookline_server.settings import ServerSettings
from hookline_server.sites import LAST_WRITES_SECONDS, sites
from hookline_server.stop_signals import FORCED_END_SECONDS, StopSignals
from hookline_server.streams import OpenStreams

logger = logging.getLogger(__name__)

StartEngine = Callable[[], Awaitable[ServingEngine]]
WhenReady = Callable[[web.Application], None]
WhenDone = Callable[[], None]


async def serve(
    listening: Listening,
    settings: ServerSettings,
    *,
    start_engine: StartEngine,
    when_ready: WhenReady,
    when_done: WhenDone = lambda: None,
    last: Callable[[], int] = lambda: 0,
) -> None:
    """Serves until a signal stops it; a second signal ends the process.

    If the first comes while the engine starts, `last` is as in `started`. After the
    first signal the process ends within `settings.shutdown_seconds` and
    `FORCED_END_SECONDS`, whatever hangs. After the last request and before the engine
    is closed, it calls `when_done`, which may block.
    """
    signals = StopSignals(settings.shutdown_seconds + FORCED_END_SECONDS)
    status = 1
    try:
        limits = settings.connection_limits
        keys = key_ring(settings)
        async with sites(loading_apps(listening, settings, keys), limits):
            engine = await started(start_engine, signals.requested, last=last)
        if engine is not None:
            try:
                await serve_engine(
                    engine, listening, settings, signals.requested, when_ready
                )
            finally:
                await asyncio.to_thread(when_done)
                await engine.close()
        status = 0
    finally:
        signals.ends(status)


async def serve_engine(
    engine: ServingEngine,
    listening: Listening,
    settings: ServerSettings,
    stopping: asyncio.Event,
    when_ready: WhenReady,
    *,
    shared: SharedParts | None = None,
) -> None:
    """Serves a started engine until `stopping` is set, then drains.

    With shared parts, this is one of several servers on these sockets.
    """
    app = create_app(engine, settings, shared)
    share = None if shared is None else shared.share
    served = [(app, listening.api)]
    if listening.pages is not None:
        served.append((app[PAGES_APP], listening.pages))
    # Sites end in reverse order, so the pages end before the API.
    async with sites(served, settings.connection_limits, share) as connections:
        report_parts(engine, app, connections)
        address = server_address(listening.api.sockets[0])
        engine.report(lambda: address)
        when_ready(app)
        async with in_background(log_failure(engine)):
            await stopping.wait()
            await leave(engine, app, connections, settings.shutdown_delay)
            connections.drain()
            await drain(engine, app[OPEN_STREAMS], settings.shutdown_timeout)


async def leave(
    engine: ServingEngine,
    app: web.Application,
    connections: ConnectionPool,
    seconds: float,
) -> None:
    """Serves on for some time, for clients to go elsewhere; not if it cannot serve.

    Whoever balances load sees that this server is not ready, and connections end after
    their next response.
    """
    if not seconds or engine.failed.is_set():
        return
    logger.info("shutting down: requests are served for %g s more", seconds)
    app[DEPARTURE].is_announced = True
    connections.is_draining = True
    async with in_background(engine.failed.wait()) as failed:
        await asyncio.wait((failed,), timeout=seconds)


async def drain(
    engine: ServingEngine, streams: OpenStreams, timeout_seconds: float
) -> None:
    """Lets open requests finish, and aborts those that have not in time."""
    logger.info(
        "shutting down: open requests have %g s to finish",
        timeout_seconds,
        extra={"open_requests": streams.own_count},
    )
    if not await engine.drain(timeout_seconds):
        logger.warning(
            "aborting requests that have not finished",
            extra={"open_requests": streams.own_count},
        )
        streams.abort_all("shutdown")


def report_parts(
    engine: ServingEngine, app: web.Application, connections: ConnectionPool
) -> None:
    """Lets the engine's loggers know the state of the server's parts."""
    engine.report(connections.stats)
    engine.report(app[PARSERS].failures.stats)
    engine.report(app[UNKNOWN_FIELDS].stats)
    engine.report(app[IGNORED].stats)
    engine.report(app[OPEN_STREAMS].stats)
    engine.report(app[RESPONSE_STORE].stats)
    engine.report(app[KEY_RING].stats)


async def log_failure(engine: ServingEngine) -> None:
    """Logs the end of the last engine."""
    await engine.failed.wait()
    logger.error("the engine has failed: %s", engine.failure)


async def started(
    start_engine: StartEngine,
    stopping: asyncio.Event,
    *,
    last: Callable[[], int] = lambda: 0,
) -> ServingEngine | None:
    """Returns the engine, or None if a signal came before it was ready.

    An engine that goes on starting after a signal ends the process: `last` is called,
    and returns the exit status.
    """
    starting = asyncio.ensure_future(start_engine())
    signalled = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    finally:
        signalled.cancel()
    if starting.done():
        return starting.result()
    await _abandon(starting, last)
    return None


async def _abandon(
    starting: asyncio.Future[ServingEngine], last: Callable[[], int]
) -> None:
    """Closes an engine that becomes ready soon; otherwise ends the process."""
    await asyncio.wait((starting,), timeout=LAST_WRITES_SECONDS)
    if not starting.done():
        # The interpreter would wait for the thread that loads the model.
        os._exit(last())
    if starting.exception() is None:
        await starting.result().close()
