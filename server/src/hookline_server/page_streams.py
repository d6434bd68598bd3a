"""Serves one logger's streams of events to a bounded number of viewers."""

import asyncio

from aiohttp import web

from hookline.pages import EventHandler
from hookline_registry import Failure
from hookline_server.api_error import ApiError
from hookline_server.page_counts import PageCount
from hookline_server.page_events import Broadcast, Item, Viewer
from hookline_server.page_rendering import page_failed
from hookline_server.sse import EventResponse

MAX_VIEWERS = 200
"""Maximum number of those who watch a logger's streams; more get a 503."""

FIRST_SECONDS = 10.0
"""Maximum time until a handler's first event."""

UNREAD_SECONDS = 60.0
"""A viewer who reads nothing for so long makes room for others."""


class PageStreams:
    """The streams of one logger's pages."""

    def __init__(self, count: PageCount) -> None:
        self._count = count
        self._broadcasts: list[Broadcast] = []

    def of(self, handler: EventHandler) -> Broadcast:
        """Returns the stream of a handler."""
        self._broadcasts.append(Broadcast(handler))
        return self._broadcasts[-1]

    async def serve(
        self, broadcast: Broadcast, request: web.Request
    ) -> web.StreamResponse:
        """Sends events until the handler ends, the client leaves or `stop` is called.

        The response starts with the first event; until then failures set the status.

        Raises:
            ApiError: 503; too many clients watch, or the first event did not come in
                time. 500; the handler failed before its first event.
        """
        if sum(each.num_viewers for each in self._broadcasts) >= MAX_VIEWERS:
            self._count.refused += 1
            message = f"too many open event streams of logger {self._count.logger!r}"
            raise ApiError(503, message, code="pages_busy")
        viewer = broadcast.join()
        response = EventResponse(request)
        try:
            item = await self._first(viewer, request.path)
            while isinstance(item, bytes):
                async with asyncio.timeout(UNREAD_SECONDS):
                    await response.write(item)
                item = await viewer.next()
            if isinstance(item, Failure):
                self._count.raised += 1
                error = page_failed(item, request.path)
                if not response.has_started:
                    raise error
            return await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client does not read") from None
        finally:
            broadcast.leave(viewer)

    def stop(self) -> None:
        """Ends all streams."""
        for broadcast in self._broadcasts:
            broadcast.end()

    async def _first(self, viewer: Viewer, path: str) -> Item:
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                return await viewer.next()
        except TimeoutError:
            self._count.timed_out += 1
            message = (
                f"{path} of logger {self._count.logger!r} sent no event within "
                f"{FIRST_SECONDS:g} s"
            )
            raise ApiError(503, message, code="page_timeout") from None
