"""Serves the loggers' pages in the observer process, to its servers only."""

import asyncio
import logging
import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from hookline.frontend.observation import Observers
from hookline.pages import PageRoute
from hookline.payloads import PageStats
from hookline_host.folders import make_private
from hookline_processes.private_folder import LOOK_SECONDS
from hookline_server.auth.key import Scope
from hookline_server.auth.route_scopes import ROUTE_SCOPES, RouteScopes
from hookline_server.errors import answer_errors, shape_error
from hookline_server.page_counts import PageCounts
from hookline_server.pages import Pages
from hookline_server.request_body import HANDLER_ARGS

LARGEST_BODY = 1 << 30
"""The servers have checked bodies against their own limit."""

_END_SECONDS = 2.0

logger = logging.getLogger(__name__)


class ObserverPages:
    """An application on a UNIX socket, on an event loop in a thread of its own."""

    def __init__(self, observers: Observers, socket: str) -> None:
        """Lets the loggers register their pages, and serves them.

        Raises:
            RegistryError: A logger's registration failed.
        """
        self._counts = PageCounts()
        self._app = web.Application(
            middlewares=(answer_errors,),
            client_max_size=LARGEST_BODY,
            handler_args=HANDLER_ARGS,
        )
        # Servers have authenticated the clients; nobody else may enter the folder.
        self._app[ROUTE_SCOPES] = RouteScopes(Scope.METRICS)
        self._app.on_response_prepare.append(shape_error)
        self._pages = Pages(self._app, self._counts, observers.settle)
        observers.add_routes(self._pages.of)
        self._stopping = asyncio.Event()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(socket)),
            name="hookline-pages",
            daemon=True,
        )
        self._thread.start()
        self._loop = self._started.result()

    @property
    def routes(self) -> tuple[PageRoute, ...]:
        """The pages."""
        return tuple(self._pages.routes)

    @property
    def paths(self) -> tuple[str, ...]:
        """Their paths as loggers have registered them."""
        return tuple(self._pages.paths)

    def stats(self) -> tuple[PageStats, ...]:
        """State of each logger's pages; for any thread."""
        return self._counts.stats()

    def close(self) -> None:
        """Ends open streams and the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(2 * _END_SECONDS)

    async def _serve(self, socket: str) -> None:
        runner = web.AppRunner(
            self._app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_END_SECONDS,
        )
        try:
            await runner.setup()
            await asyncio.to_thread(make_private, Path(socket).parent)
            await web.UnixSite(runner, socket).start()
        except OSError as error:
            self._started.set_exception(error)
            return
        self._started.set_result(asyncio.get_running_loop())
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_SECONDS)
            if await asyncio.to_thread(_is_removed, Path(socket)):
                with suppress(OSError):  # it is removed again
                    await web.UnixSite(runner, socket).start()
                    logger.warning("%s was removed, and is there again", socket)
        await runner.cleanup()


def _is_removed(socket: Path) -> bool:
    """Whether the socket's file was removed; its folder is then made again, if so."""
    if os.path.lexists(socket):
        return False
    try:
        make_private(socket.parent)
    except OSError:  # the inbox beside it has the same trouble, and says so
        return False
    return True
