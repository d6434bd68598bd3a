"""The loggers' pages, rendered in a few threads so that no scrape delays a token."""

import asyncio
import contextlib
import logging

from aiohttp import web

from hookline.payloads import PageHandler, PageRequest, PageResponse
from hookline_registry.isolation import Failure, isolate
from hookline_server.api_error import ApiError
from hookline_server.bearer import bearer_token, is_same
from hookline_server.errors import Page
from hookline_server.page_threads import PageThreads

MAX_THREADS = 2
MAX_OPEN = 32
"""More scrapes than this at once are refused rather than queued."""

TIMEOUT_SECONDS = 10.0

logger = logging.getLogger(__name__)

Rendering = asyncio.Future[PageResponse | Failure]


class Pages:
    """Collects pages while the server is composed, and serves them afterwards.

    This is the `Routes` of the hook `add_routes`.

    Attributes:
        paths: What has been registered.
    """

    def __init__(self, app: web.Application, *, token: str | None = None) -> None:
        """Serves pages in an application; where there is a token, only for it."""
        self.paths: list[str] = []
        self._router = app.router
        self._token = token
        self._open = 0
        self._slots = asyncio.Semaphore(MAX_THREADS)
        self._threads = PageThreads(MAX_THREADS)
        app.on_cleanup.append(self._close)

    def get(self, path: str, handler: PageHandler) -> None:
        """Serves `path`; raises `ValueError` where something else is served there."""
        if path in {resource.canonical for resource in self._router.resources()}:
            raise ValueError(f"{path} is served already")

        async def serve(request: web.Request) -> web.Response:
            self._check_token(request)
            return await self._serve(handler, request)

        self._router.add_get(path, serve)
        self.paths.append(path)

    def _check_token(self, request: web.Request) -> None:
        if self._token is None or is_same(bearer_token(request), self._token):
            return
        raise ApiError(
            401,
            "the metrics token is needed: send it as `Authorization: Bearer …`",
            code="invalid_metrics_token",
        )

    async def _serve(self, handler: PageHandler, request: web.Request) -> web.Response:
        if self._open >= MAX_OPEN:
            raise ApiError(503, "too many requests for pages", code="pages_busy")
        self._open += 1
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._slots.acquire()
                page = await asyncio.shield(self._start(handler, request))
        except TimeoutError:
            message = f"{request.path} took longer than {TIMEOUT_SECONDS:g} s"
            raise ApiError(503, message, code="page_timeout") from None
        finally:
            self._open -= 1
        return _response(page, request.path)

    def _start(self, handler: PageHandler, request: web.Request) -> Rendering:
        loop = asyncio.get_running_loop()
        rendering: Rendering = loop.create_future()
        # A page that hangs keeps its slot, for its thread cannot be ended.
        rendering.add_done_callback(lambda _: self._slots.release())
        asked = _page_request(request)

        def render() -> None:
            page = isolate(handler, asked)
            with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
                loop.call_soon_threadsafe(rendering.set_result, page)

        self._threads.run(render)
        return rendering

    async def _close(self, _: web.Application) -> None:
        self._threads.close()


PAGES: web.AppKey[Pages] = web.AppKey("hookline_pages", Pages)


def _page_request(request: web.Request) -> PageRequest:
    return PageRequest(
        headers={name.lower(): value for name, value in request.headers.items()},
        query={name: request.query.getall(name)[-1] for name in request.query},
    )


def _response(page: PageResponse | Failure, path: str) -> web.Response:
    if isinstance(page, Failure):
        logger.error("the page %s failed", path, exc_info=page.error)
        raise ApiError(500, f"{path} failed: {page.summary}", code="page_failed")
    return Page(
        body=page.body, status=page.status, headers={"Content-Type": page.content_type}
    )
