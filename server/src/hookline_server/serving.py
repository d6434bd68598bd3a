"""The life of a server process: load, serve until a signal, drain, end."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from hookline_server.access_log import QuietAccessLogger
from hookline_server.app import create_app
from hookline_server.context import OPEN_STREAMS
from hookline_server.engine import ServingEngine
from hookline_server.loading import create_loading_app
from hookline_server.settings import ServerSettings

LAST_WRITES_SECONDS = 5.0
"""After the drain, handlers get so long to write what clients have yet to read."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger(__name__)

StartEngine = Callable[[], Awaitable[ServingEngine]]
WhenReady = Callable[[web.Application], None]


async def serve(
    listening: socket.socket,
    settings: ServerSettings,
    *,
    start_engine: StartEngine,
    when_ready: WhenReady,
) -> None:
    """Serves on a socket until SIGTERM or SIGINT; a second signal ends the process."""
    stopping = _stop_on_signals()
    async with _site(create_loading_app(), listening.dup()):
        engine = await _started(start_engine, stopping)
    if engine is None:
        listening.close()
        return
    try:
        await _serve_engine(engine, listening, settings, stopping, when_ready)
    finally:
        await engine.close()


async def _serve_engine(
    engine: ServingEngine,
    listening: socket.socket,
    settings: ServerSettings,
    stopping: asyncio.Event,
    when_ready: WhenReady,
) -> None:
    app = create_app(engine, settings)
    async with _site(app, listening):
        when_ready(app)
        telling = asyncio.create_task(_tell_of_failure(engine))
        await stopping.wait()
        if not await engine.drain(settings.shutdown_timeout):
            app[OPEN_STREAMS].abort_all("shutdown")
        telling.cancel()


async def _tell_of_failure(engine: ServingEngine) -> None:
    await engine.failed.wait()
    logger.error("the engine has failed: %s", engine.failure)


def _stop_on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    return stopping


async def _started(
    start_engine: StartEngine, stopping: asyncio.Event
) -> ServingEngine | None:
    """The engine, or None where a signal came before it was there."""
    starting = asyncio.ensure_future(start_engine())
    signalled = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if starting.done():
        return starting.result()
    await _give_up(starting)
    return None


async def _give_up(starting: asyncio.Future[ServingEngine]) -> None:
    """Closes an engine that is about to be there; one that takes long is left."""
    await asyncio.wait((starting,), timeout=LAST_WRITES_SECONDS)
    if not starting.done():
        # A thread that loads a model cannot be ended, and would be waited for.
        os._exit(0)
    if starting.exception() is None:
        await starting.result().close()


@asynccontextmanager
async def _site(app: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    runner = web.AppRunner(
        app,
        # A handler whose client has left is cancelled, which aborts its request.
        handler_cancellation=True,
        access_log_class=QuietAccessLogger,
        shutdown_timeout=LAST_WRITES_SECONDS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()
