"""The loggers' pages: registered at the start, served off the event loop."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from aiohttp import web

from hookline.pages import EventHandler, PageHandler, PageRoute
from hookline_server.auth.key import Scope
from hookline_server.auth.route_scopes import LIVENESS, ROUTE_SCOPES
from hookline_server.context import PAGE_PATHS
from hookline_server.openapi.operation import Operation, Tag, described
from hookline_server.page_counts import PageCount, PageCounts
from hookline_server.page_files import serve_file
from hookline_server.page_rendering import PageRendering, Settle
from hookline_server.page_streams import PageStreams

Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]
Add = Callable[[PageRoute, Serve], None]
"""Serves a route; raises `ValueError` if its path is taken."""


class Pages:
    """The pages of all loggers; each logger has threads and limits of its own.

    Attributes:
        paths: Registered paths, in order.
        routes: The routes of all pages, in order.
    """

    def __init__(
        self, app: web.Application, counts: PageCounts, settle: Settle
    ) -> None:
        """Adds pages to the application, each of which `settle` precedes."""
        self._settle = settle
        self.paths: list[str] = []
        app[PAGE_PATHS] = self.paths
        self.routes: list[PageRoute] = []
        self._router = app.router
        self._scopes = app[ROUTE_SCOPES]
        self._counts = counts
        self._loggers: list[LoggerPages] = []
        app.on_shutdown.append(self._stop_streams)
        app.on_cleanup.append(self._close)

    def of(self, logger: str) -> "LoggerPages":
        """Returns the routes that a logger registers its pages with."""
        count = self._counts.of(logger)
        made = LoggerPages(self.add, self.paths, count, self._settle)
        self._loggers.append(made)
        return made

    def add(self, added: PageRoute, serve: Serve) -> None:
        """Adds a route; raises `ValueError` if the path has one for this method."""
        method, path, is_public = added
        for route in self._router.routes():
            taken = route.resource is not None and route.resource.canonical == path
            if taken and route.method in {method, "*"}:
                raise ValueError(f"{path} is served already")

        # aiohttp wants a coroutine function.
        @described(Operation(tag=Tag.PAGES, errors=(503,)))
        async def handler(request: web.Request) -> web.StreamResponse:
            """A page of a stat logger."""
            return await serve(request)

        if method == "GET":
            route = self._router.add_get(path, handler)
        else:
            route = self._router.add_route(method, path, handler)
        if route.resource is not None:
            scope = None if is_public else Scope.METRICS
            self._scopes.add(route.resource.canonical, scope)
        self.routes.append(added)

    async def _stop_streams(self, _: web.Application) -> None:
        for each in self._loggers:
            each.stop_streams()

    async def _close(self, _: web.Application) -> None:
        for each in self._loggers:
            each.close()


class LoggerPages:
    """The pages of one logger; the `Routes` of the hook `add_routes`."""

    def __init__(
        self, add: Add, paths: list[str], count: PageCount, settle: Settle
    ) -> None:
        """Registers pages with `add`, and their paths in `paths`."""
        self._add = add
        self._paths = paths
        self._rendering = PageRendering(count, settle)
        self._streams = PageStreams(count)

    def get(self, path: str, handler: PageHandler) -> None:
        """Serves GET and HEAD requests."""
        self._serve(PageRoute("GET", path), partial(self._rendering.serve, handler))

    def post(self, path: str, handler: PageHandler) -> None:
        """Serves POST requests; bodies have the application's `client_max_size`."""
        self._serve(PageRoute("POST", path), partial(self._rendering.serve, handler))

    def events(self, path: str, handler: EventHandler) -> None:
        """Serves GET requests with one stream of server-sent events for all."""
        serve = partial(self._streams.serve, self._streams.of(handler))
        self._serve(PageRoute("GET", path), serve)

    def files(self, path: str, folder: Path, *, is_public: bool = False) -> None:
        """Serves the files of a folder below `path`; `path` itself leads to `path/`."""
        root = folder.resolve()
        if not root.is_dir():
            raise ValueError(f"{folder} is not a folder")
        path = path.rstrip("/")

        async def add_slash(request: web.Request) -> web.StreamResponse:
            # Redirects, so that relative links in the index work.
            raise web.HTTPPermanentRedirect(request.rel_url.with_path(f"{path}/"))

        async def serve(request: web.Request) -> web.StreamResponse:
            name = request.match_info.get("name", "")
            return await serve_file(root, name, request.path, is_public=is_public)

        if path and path not in LIVENESS:  # which lead a browser there themselves
            self._add(PageRoute("GET", path, is_public), add_slash)
        # The first as such, too: an unknown path with a slash means one without.
        for below in ("", "{name:.+}"):
            self._add(PageRoute("GET", f"{path}/{below}", is_public), serve)
        self._paths.append(f"{path}/")

    def _serve(self, route: PageRoute, serve: Serve) -> None:
        self._add(route, serve)
        self._paths.append(route.path)

    def stop_streams(self) -> None:
        """Ends all open streams."""
        self._streams.stop()

    def close(self) -> None:
        """Ends each thread when it is idle, without waiting for it."""
        self._rendering.close()


PAGES: web.AppKey[Pages] = web.AppKey("hookline_pages", Pages)
