"""Measures every answered request, and tells the engine's observers now and then."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator

from aiohttp import web

from hookline.payloads import HttpAnswered, HttpExchange
from hookline_server.engine import ServingEngine
from hookline_server.errors import Handler
from hookline_server.sse import SENT_BYTES

FLUSH_SECONDS = 0.25
MOST_EXCHANGES = 1000
"""Exchanges beyond these between two flushes are only counted."""

UNMATCHED = "unmatched"
OTHER = "OTHER"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

CLIENT_LEFT = 499
UNFORESEEN = 500

_Key = tuple[str, str]


class HttpMeter:
    """Meters one or several applications; lives on their event loop.

    It wakes up only after something has changed: an idle server stays idle.
    """

    def __init__(self, engine: ServingEngine) -> None:
        self._engine = engine
        self._exchanges: list[HttpExchange] = []
        self._missed = 0
        self._in_flight: Counter[_Key] = Counter()
        self._flushing: asyncio.TimerHandle | None = None

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Measures a request to its last byte; to be the outermost middleware.

        The response is sent from in here, and not, as otherwise, after all middlewares.
        """
        key = _route(request), _method(request)
        # What aiohttp makes of an unforeseen error, with a body that nobody counts.
        status = UNFORESEEN
        begun = time.perf_counter()
        self._change(key, 1)
        try:
            response = await _answer(request, handler)
            status = response.status if await _send(request, response) else CLIENT_LEFT
        except (asyncio.CancelledError, ConnectionError):
            status = CLIENT_LEFT
            raise
        finally:
            self._change(key, -1)
            seconds = time.perf_counter() - begun
            self._add(key, status, seconds, request)
        if isinstance(response, web.HTTPException):
            raise response
        return response

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """A cleanup context: the application does not end before all is told."""
        yield
        self.flush()

    def flush(self) -> None:
        """Tells what has been measured since the last time."""
        if self._flushing is None:
            return
        self._flushing.cancel()
        self._flushing = None
        answered = HttpAnswered(
            exchanges=tuple(self._exchanges),
            in_flight=dict(self._in_flight),
            missed=self._missed,
        )
        self._exchanges.clear()
        self._missed = 0
        self._engine.http_answered(answered)

    def _change(self, key: _Key, by: int) -> None:
        self._in_flight[key] += by
        if not self._in_flight[key]:
            del self._in_flight[key]
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(FLUSH_SECONDS, self.flush)

    def _add(
        self, key: _Key, status: int, seconds: float, request: web.Request
    ) -> None:
        if len(self._exchanges) >= MOST_EXCHANGES:
            self._missed += 1
            return
        route, method = key
        self._exchanges.append(
            HttpExchange(
                route=route,
                method=method,
                status=status,
                seconds=seconds,
                request_bytes=request.content.total_bytes,
                response_bytes=request.get(SENT_BYTES, 0),
            )
        )


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # which is a response too
        return error


async def _send(request: web.Request, response: web.StreamResponse) -> bool:
    """Sends a response that is not sent yet; False where the client has left."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        # aiohttp will try to send it too, and knows what to do where that fails.
        return False
    if isinstance(response, web.Response) and request.method != "HEAD":
        request[SENT_BYTES] = response.content_length or 0
    return True


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return UNMATCHED if resource is None else resource.canonical


def _method(request: web.Request) -> str:
    return request.method if request.method in METHODS else OTHER
