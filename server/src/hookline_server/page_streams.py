"""Serves one logger's streams of events, a bounded number at a time."""

import asyncio
import threading
from functools import partial

from aiohttp import web

from hookline.pages import EventHandler
from hookline_registry import Failure
from hookline_server.api_error import ApiError
from hookline_server.page_counts import PageCount
from hookline_server.page_events import Item, PageEventStream
from hookline_server.page_rendering import page_failed, page_request
from hookline_server.sse import EventResponse

MAX_STREAMS = 16
"""Maximum number of a logger's open streams, each with a thread; more get a 503."""

FIRST_SECONDS = 10.0
"""Maximum time until a handler's first event."""


class PageStreams:
    """The open streams of one logger's pages."""

    def __init__(self, count: PageCount) -> None:
        self._count = count
        self._streams: set[PageEventStream] = set()

    async def serve(
        self, handler: EventHandler, request: web.Request
    ) -> web.StreamResponse:
        """Sends events until the handler ends, the client leaves or `stop` is called.

        The response starts with the first event; until then failures set the status.

        Raises:
            ApiError: 503; too many streams are open, or the first event did not come in
                time. 500; the handler failed before its first event.
        """
        asked = await page_request(request)
        if len(self._streams) >= MAX_STREAMS:
            self._count.refused += 1
            message = f"too many open event streams of logger {self._count.logger!r}"
            raise ApiError(503, message, code="pages_busy")
        stream = self._start(PageEventStream(handler, asked))
        response = EventResponse(request)
        try:
            item = await self._first(stream, request.path)
            while isinstance(item, bytes):
                await response.write(item)
                item = await stream.next()
            if isinstance(item, Failure):
                self._count.raised += 1
                error = page_failed(item, request.path)
                if not response.has_started:
                    raise error
            return await response.write_eof()
        finally:
            stream.stop()

    def stop(self) -> None:
        """Ends all streams."""
        for stream in self._streams:
            stream.stop()

    def _start(self, stream: PageEventStream) -> PageEventStream:
        # A stream counts until its thread has ended, also if its handler hangs.
        self._streams.add(stream)
        ended = partial(self._streams.discard, stream)
        threading.Thread(
            target=stream.run, args=(ended,), name="hookline-page-events", daemon=True
        ).start()
        return stream

    async def _first(self, stream: PageEventStream, path: str) -> Item:
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                return await stream.next()
        except TimeoutError:
            self._count.timed_out += 1
            message = (
                f"{path} of logger {self._count.logger!r} sent no event within "
                f"{FIRST_SECONDS:g} s"
            )
            raise ApiError(503, message, code="page_timeout") from None
