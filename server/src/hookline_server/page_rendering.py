"""Renders one logger's pages in a few threads, off the event loop."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web

from hookline.frozen import frozen_map
from hookline.pages import PageHandler, PageRequest, PageResponse
from hookline_registry import Failure, isolate
from hookline_registry.declarations import line_of
from hookline_server.api_error import ApiError
from hookline_server.errors import Page
from hookline_server.page_counts import PageCount
from hookline_server.page_threads import PageThreads
from hookline_server.request_body import read_body

MAX_THREADS = 2
MAX_OPEN = 32
"""Maximum number of a logger's pages being rendered or queued; further ones get 503."""

TIMEOUT_SECONDS = 10.0

logger = logging.getLogger(__name__)

Rendering = asyncio.Future[Page | Failure]

Settle = Callable[[str], float]
"""Has a logger get what has happened; returns `PageRequest.behind_seconds`."""


class PageRendering:
    """The threads of one logger's pages, and the requests that wait for them.

    A page that hangs keeps its thread, because threads cannot be ended. Once every
    thread of the logger hangs, its pages fail at once; those of others are unaffected.
    """

    def __init__(self, count: PageCount, settle: Settle) -> None:
        self._count = count
        self._settle = settle
        self._open = 0
        self._slots = asyncio.Semaphore(MAX_THREADS)
        self._threads = PageThreads(MAX_THREADS)

    async def serve(self, handler: PageHandler, request: web.Request) -> web.Response:
        """Returns the page that the handler makes.

        Raises:
            ApiError: 503; too many of the logger's pages are open, all of its threads
                hang, or this page takes too long. 500; the handler fails, or does not
                return a `PageResponse`.
        """
        self._check_room()
        self._open += 1
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                asked = await page_request(request)
                await self._slots.acquire()
                page = await asyncio.shield(self._start(handler, asked))
        except TimeoutError:
            self._count.timed_out += 1
            message = (
                f"{request.path} of logger {self._count.logger!r} took longer than "
                f"{TIMEOUT_SECONDS:g} s"
            )
            raise ApiError(503, message, code="page_timeout") from None
        finally:
            self._open -= 1
        if isinstance(page, Failure):
            self._count.raised += 1
            raise page_failed(page, request.path)
        return page

    def close(self) -> None:
        """Ends each thread when it is idle, without waiting for it."""
        self._threads.close()

    def _check_room(self) -> None:
        name = self._count.logger
        if self._count.hung >= MAX_THREADS:
            self._count.refused += 1
            raise ApiError(503, f"pages of logger {name!r} hang", code="page_timeout")
        if self._open >= MAX_OPEN:
            self._count.refused += 1
            message = f"too many requests for pages of logger {name!r}"
            raise ApiError(503, message, code="pages_busy")

    def _note_hung(self, rendering: Rendering) -> None:
        """Counts a thread that hangs, until its handler returns."""
        self._count.hung += 1
        rendering.add_done_callback(self._note_return)

    def _note_return(self, _: Rendering) -> None:
        self._count.hung -= 1

    def _start(self, handler: PageHandler, asked: PageRequest) -> Rendering:
        loop = asyncio.get_running_loop()
        rendering: Rendering = loop.create_future()
        # Also counts as hung if the client leaves before the timeout.
        late = loop.call_later(TIMEOUT_SECONDS, self._note_hung, rendering)
        rendering.add_done_callback(lambda _: late.cancel())
        rendering.add_done_callback(lambda _: self._slots.release())

        def render() -> None:
            page = isolate(self._rendered, handler, asked)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(rendering.set_result, page)

        self._threads.run(render)
        return rendering

    def _rendered(self, handler: PageHandler, asked: PageRequest) -> Page:
        behind = self._settle(self._count.logger)
        page: object = handler(replace(asked, behind_seconds=behind))
        if not isinstance(page, PageResponse):
            kind = type(page).__name__
            place = line_of(handler)
            raise TypeError(f"a page returns a PageResponse, not {kind}{place}")
        body: object = page.body
        if not isinstance(body, bytes):
            kind = type(body).__name__
            raise TypeError(
                f"PageResponse.body is bytes, not {kind}; encode text first"
            )
        headers = {**page.headers, "Content-Type": page.content_type}
        return Page(body=body, status=page.status, headers=headers)


async def page_request(request: web.Request) -> PageRequest:
    """Returns a request for a page's handler; reads the body."""
    values: dict[str, tuple[str, ...]] = {}
    for name, value in request.query.items():
        values[name] = (*values.get(name, ()), value)
    return PageRequest(
        headers=frozen_map(
            {name.lower(): value for name, value in request.headers.items()}
        ),
        query=frozen_map({name: given[-1] for name, given in values.items()}),
        query_values=frozen_map(values),
        body=await read_body(request) if request.body_exists else b"",
        path_values=frozen_map(dict(request.match_info)),
    )


def page_failed(failure: Failure, path: str) -> ApiError:
    """Logs a handler's failure and returns the error for the client."""
    logger.error("the page %s failed", path, exc_info=failure.error)
    return ApiError(500, f"{path} failed: {failure.summary}", code="page_failed")
