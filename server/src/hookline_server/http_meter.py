"""Measures every answered request and reports batches of them to the observers."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from aiohttp import web

from hookline.frontend.observing import Observing
from hookline.frozen import frozen_map
from hookline.payloads import HttpAnswered, HttpExchange, PageStats
from hookline_server.errors import Handler
from hookline_server.request_identity import IDENTITY
from hookline_server.sse import SENT

FLUSH_SECONDS = 0.25
MOST_EXCHANGES = 1000
"""Maximum number of exchanges between two flushes; further ones are only counted."""

UNMATCHED = "unmatched"
OTHER = "OTHER"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

UNEXPECTED_ERROR = 500
"""Status of aiohttp's own response to an unexpected exception."""

_Key = tuple[str, str]


class HasObservers(Protocol):
    """What an engine's server, and a gateway, are for the meter."""

    @property
    def observers(self) -> Observing: ...


class HttpMeter:
    """Measures one or several applications on one event loop.

    Reports only changes, so that an idle server stays idle.
    """

    def __init__(
        self,
        engine: HasObservers,
        page_stats: Callable[[], tuple[PageStats, ...]] = tuple,
    ) -> None:
        """Reports to the engine's loggers, with the state of their pages."""
        self._engine = engine
        self._page_stats = page_stats
        self._exchanges: list[HttpExchange] = []
        self._missed = 0
        self._in_flight: Counter[_Key] = Counter()
        self._flushing: asyncio.TimerHandle | None = None

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Measures a request to its last byte; must be the outermost middleware."""
        resource = request.match_info.route.resource
        route = UNMATCHED if resource is None else resource.canonical
        key = route, request.method if request.method in METHODS else OTHER
        status = UNEXPECTED_ERROR  # whose body is not counted
        begun, begun_at = time.perf_counter(), time.time_ns()
        self._change(key, 1)
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            self._change(key, -1)
            self._add(key, status, (begun, begun_at), request)
        return response

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Flushes at the application's end; for its `cleanup_ctx`."""
        yield
        self.flush()

    def flush(self) -> None:
        """Reports the measurements since the last flush."""
        if self._flushing is None:
            return
        self._flushing.cancel()
        self._flushing = None
        answered = HttpAnswered(
            exchanges=tuple(self._exchanges),
            in_flight=frozen_map(dict(self._in_flight)),
            missed=self._missed,
            pages=self._page_stats(),
        )
        self._exchanges.clear()
        self._missed = 0
        self._engine.observers.http_answered(answered)

    def _change(self, key: _Key, by: int) -> None:
        self._in_flight[key] += by
        if not self._in_flight[key]:
            del self._in_flight[key]
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(FLUSH_SECONDS, self.flush)

    def _add(
        self, key: _Key, status: int, begun: tuple[float, int], request: web.Request
    ) -> None:
        if len(self._exchanges) >= MOST_EXCHANGES:
            self._missed += 1
            return
        route, method = key
        identity, sent = request.get(IDENTITY), request.get(SENT)
        facts = None if identity is None else identity.facts
        seconds = time.perf_counter() - begun[0]
        first = seconds if sent is None else sent.first_at - begun[0]
        self._exchanges.append(
            HttpExchange(
                route=route,
                method=method,
                status=status,
                seconds=seconds,
                request_bytes=request.content.total_bytes,
                response_bytes=0 if sent is None else sent.num_bytes,
                client_id="" if facts is None else facts.client_id,
                begun=begun[1],
                first_byte_seconds=first,
                unread_seconds=0.0 if sent is None else sent.unread_seconds,
            )
        )
