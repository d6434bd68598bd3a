"""Renders loggers' pages in a few threads, off the event loop."""

import asyncio
import contextlib
import logging

from aiohttp import web

from hookline.pages import PageHandler, PageRequest, PageResponse
from hookline_registry import Failure, isolate
from hookline_server.api_error import ApiError
from hookline_server.errors import Page
from hookline_server.page_threads import PageThreads
from hookline_server.request_body import read_body

MAX_THREADS = 2
MAX_OPEN = 32
"""Maximum number of pages being rendered or queued; further requests get a 503."""

TIMEOUT_SECONDS = 10.0

logger = logging.getLogger(__name__)

Rendering = asyncio.Future[Page | Failure]


class PageRendering:
    """The threads of all pages, and the requests that wait for them."""

    def __init__(self) -> None:
        self._open = 0
        self._slots = asyncio.Semaphore(MAX_THREADS)
        self._threads = PageThreads(MAX_THREADS)

    async def serve(self, handler: PageHandler, request: web.Request) -> web.Response:
        """Returns the page that the handler makes.

        Raises:
            ApiError: 503; too many pages are open, or this one takes too long. 500; the
                handler fails, or does not return a `PageResponse`.
        """
        if self._open >= MAX_OPEN:
            raise ApiError(503, "too many requests for pages", code="pages_busy")
        self._open += 1
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                asked = await page_request(request)
                await self._slots.acquire()
                page = await asyncio.shield(self._start(handler, asked))
        except TimeoutError:
            message = f"{request.path} took longer than {TIMEOUT_SECONDS:g} s"
            raise ApiError(503, message, code="page_timeout") from None
        finally:
            self._open -= 1
        if isinstance(page, Failure):
            raise page_failed(page, request.path)
        return page

    def close(self) -> None:
        """Ends each thread when it is idle, without waiting for it."""
        self._threads.close()

    def _start(self, handler: PageHandler, asked: PageRequest) -> Rendering:
        loop = asyncio.get_running_loop()
        rendering: Rendering = loop.create_future()
        # A page that hangs keeps its slot, because its thread cannot be ended.
        rendering.add_done_callback(lambda _: self._slots.release())

        def render() -> None:
            page = isolate(_rendered, handler, asked)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(rendering.set_result, page)

        self._threads.run(render)
        return rendering


async def page_request(request: web.Request) -> PageRequest:
    """Returns a request for a page's handler; reads the body."""
    return PageRequest(
        headers={name.lower(): value for name, value in request.headers.items()},
        query={name: request.query.getall(name)[-1] for name in request.query},
        body=await read_body(request) if request.body_exists else b"",
    )


def page_failed(failure: Failure, path: str) -> ApiError:
    """Logs a handler's failure and returns the error for the client."""
    logger.error("the page %s failed", path, exc_info=failure.error)
    return ApiError(500, f"{path} failed: {failure.summary}", code="page_failed")


def _rendered(handler: PageHandler, asked: PageRequest) -> Page:
    page: object = handler(asked)
    if not isinstance(page, PageResponse):
        raise TypeError(f"a page returns a PageResponse, not {type(page).__name__}")
    body: object = page.body
    if not isinstance(body, bytes):
        kind = type(body).__name__
        raise TypeError(f"PageResponse.body is bytes, not {kind}; encode text first")
    return Page(
        body=body, status=page.status, headers={"Content-Type": page.content_type}
    )
