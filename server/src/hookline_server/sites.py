"""Runs applications on sockets until a signal."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from hookline_processes.terminal import Terminal
from hookline_server.api_servers.share import Share
from hookline_server.background import in_background
from hookline_server.connections.accepting import Acceptor
from hookline_server.connections.connection import Connection
from hookline_server.connections.limits import ConnectionLimits
from hookline_server.connections.pool import ConnectionPool
from hookline_server.continuing import without_expectation
from hookline_server.leftovers import discard
from hookline_server.listening import Bound
from hookline_server.respelling import ROOT_PATH, fixed_paths, respelt, without_root
from hookline_server.stop_signals import HANGUP, SIGNALS, ignore_all
from hookline_server.tls.certificates import Certificates

LAST_WRITES_SECONDS = 2.0
"""Time after the drain for handlers to finish writing to slow clients."""

logger = logging.getLogger(__name__)

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Served = tuple[web.Application, socket.socket | Bound]


def stop_on_signals(last: Callable[[], None] | None = None) -> asyncio.Event:
    """Returns an event that the first signal sets; a second signal ends the process.

    These are those of `StopSignals`. `last` is called before the process ends.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            if last is not None:
                last()
            os._exit(128 + number)
        stopping.set()

    def hang_up() -> None:
        if terminal.is_lost:
            stop(signal.SIGHUP)
        else:
            logger.info(HANGUP)

    terminal = Terminal()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    ignore_all()
    return stopping


@asynccontextmanager
async def sites(
    served: Iterable[Served],
    limits: ConnectionLimits | None = None,
    share: Share | None = None,
) -> AsyncIterator[ConnectionPool]:
    """Serves all applications; they end in reverse order.

    Takes over their sockets, on which other servers may accept, too, with a share.
    """
    pool = ConnectionPool(limits or ConnectionLimits(), share)
    async with AsyncExitStack() as stack:
        stack.callback(pool.close)
        followed: set[Certificates] = set()
        for app, listening in served:
            bound = listening if isinstance(listening, Bound) else Bound((listening,))
            if bound.tls is not None:
                followed.add(bound.tls.certificates)
            await stack.enter_async_context(_site(app, bound, pool))
        for each in followed:
            _ = await stack.enter_async_context(in_background(each.follow()))
        yield pool


@asynccontextmanager
async def _site(
    app: web.Application, bound: Bound, pool: ConnectionPool
) -> AsyncIterator[None]:
    runner = web.AppRunner(
        app,
        # Cancels the handler when its client leaves, which aborts the request.
        handler_cancellation=True,
        shutdown_timeout=LAST_WRITES_SECONDS,
    )
    app.on_response_prepare.append(_hide_server)
    await runner.setup()
    server = runner.server
    assert server is not None
    paths = fixed_paths(app.router.resources())
    root = app.get(ROOT_PATH, "")
    server.request_handler = around(server.request_handler, paths, root)

    def make(is_extra: bool) -> Connection:
        return Connection(server, pool, is_extra=is_extra)

    acceptors = [Acceptor(each, pool, make, bound.tls) for each in bound.sockets]
    try:
        yield
    finally:
        for acceptor in acceptors:
            acceptor.close()
        await runner.cleanup()


async def _hide_server(_: web.Request, response: web.StreamResponse) -> None:
    """Removes aiohttp's header with the versions of aiohttp and Python."""
    response.headers.pop("Server", None)


def around(handle: Handle, paths: Collection[str], root: str = "") -> Handle:
    """Handles requests' expectations and leftovers instead of aiohttp.

    Paths that are none of the fixed ones may mean one of them, and all may begin with
    the root path.
    """

    async def handle_all(request: web.BaseRequest) -> web.StreamResponse:
        if root:
            request = without_root(request, root)
        if request.path not in paths:
            request = respelt(request, paths)
        try:
            response = await handle(without_expectation(request))
        except web.HTTPException as error:  # which `send` has sent
            await discard(request, error.status)
            raise
        await discard(request, response.status)
        return response

    return handle_all
