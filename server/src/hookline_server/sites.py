"""Runs applications on sockets until a signal."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from hookline_server.access_log import QuietAccessLogger

LAST_WRITES_SECONDS = 5.0
"""Time after the drain for handlers to finish writing to slow clients."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

Served = tuple[web.Application, socket.socket]


def stop_on_signals(last: Callable[[], None] | None = None) -> asyncio.Event:
    """Returns an event that the first signal sets; a second signal ends the process.

    `last` is called before the process ends.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            if last is not None:
                last()
            os._exit(128 + number)
        stopping.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    return stopping


@asynccontextmanager
async def sites(served: Iterable[Served]) -> AsyncIterator[None]:
    """Serves all applications; they end in reverse order."""
    async with AsyncExitStack() as stack:
        for app, listening in served:
            await stack.enter_async_context(_site(app, listening))
        yield


@asynccontextmanager
async def _site(app: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    runner = web.AppRunner(
        app,
        # Cancels the handler when its client leaves, which aborts the request.
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
