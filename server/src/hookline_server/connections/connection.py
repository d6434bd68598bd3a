"""One client's connection: its phase, and what ends it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import Any, Protocol, cast

from aiohttp import StreamReader, http_exceptions, web

from hookline_server.access_log import QuietAccessLogger
from hookline_server.api_error import ApiError
from hookline_server.connections.chunk_meter import ChunkMeter
from hookline_server.connections.limits import ConnectionLimits
from hookline_server.connections.refusal import (
    MAX_FIELD_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_LINE_BYTES,
    Refusal,
    headers_too_large,
    headers_too_slow,
    malformed,
    to_bytes,
)
from hookline_server.request_identity import identity_of

LINGER_SECONDS = 2.0
"""Time for a client to read an answer to a request that was not read to its end.

A connection that is closed with unread input is reset, which can destroy the answer.
"""

AIOHTTPS_KEEP_ALIVE = 1e6
"""aiohttp's own limit of idle connections; it would also cut slow headers."""


class BodyTimeoutError(Exception):
    """A request's body came too slowly."""


class Phase(Enum):
    """What a connection waits for."""

    HANDSHAKE = auto()
    FIRST_BYTE = auto()
    HEADERS = auto()
    BODY = auto()
    RESPONSE = auto()
    NEXT_REQUEST = auto()
    CLIENTS_CLOSE = auto()
    LAST_WRITES = auto()


_BEFORE_HEADERS = frozenset({Phase.FIRST_BYTE, Phase.NEXT_REQUEST})
_BODY = (web.RequestPayloadError, BodyTimeoutError)
"""Errors of a client's body."""


class ConnectionOwner(Protocol):
    """What a connection needs of those who count it."""

    limits: ConnectionLimits
    is_draining: bool

    def opened(self, connection: "Connection") -> None:
        """Counts a connection."""
        ...

    def lost(self, connection: "Connection") -> None:
        """Forgets a connection."""
        ...

    def is_idle(self, connection: "Connection") -> None:
        """Marks a connection as one that may be closed to make room for another."""
        ...

    def make_regular(self) -> bool:
        """Finds room for an extra connection; returns False without any."""
        ...

    def is_busy(self, connection: "Connection") -> None:
        """Takes the mark off."""
        ...

    def count(self, reason: str) -> None:
        """Counts the end of a connection that the server closes."""
        ...


class Connection(web.RequestHandler):
    """aiohttp's protocol with limits of time, and with JSON errors.

    Attributes:
        phase: What it waits for.
        is_extra: Whether it exceeds the maximum number of connections; it may only ask
            for the server's health.
    """

    __slots__ = (
        "_body",
        "_chunks",
        "_header_bytes",
        "_is_deaf",
        "_leave",
        "_num_answered",
        "_owner",
        "_read_at",
        "_since",
        "_unsent",
        "_wire",
        "_wrote_at",
        "is_extra",
        "phase",
    )

    def __init__(
        self, manager: web.Server, owner: ConnectionOwner, *, is_extra: bool = False
    ) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=AIOHTTPS_KEEP_ALIVE,
            # `leftovers` discards bodies that nobody reads, such as after an error.
            lingering_time=0,
            access_log_class=QuietAccessLogger,
            # A handler decodes bodies, after authentication and within limits.
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADERS,
        )
        self._owner = owner
        self.is_extra = is_extra
        self.phase = Phase.FIRST_BYTE
        self._since = self._read_at = self._wrote_at = self._loop.time()
        self._wire: asyncio.Transport | None = None
        self._leave: Callable[[], None] | None = None
        self._body: StreamReader | None = None
        self._chunks: ChunkMeter | None = None
        self._is_deaf = False
        self._num_answered = self._header_bytes = self._unsent = 0

    @property
    def is_last_request(self) -> bool:
        """Whether the connection should end after the current response."""
        return self.is_extra or self._owner.is_draining

    @property
    def is_between_requests(self) -> bool:
        """Whether a response has been sent and nothing of a next request has come."""
        return self.phase is Phase.NEXT_REQUEST

    # -- what asyncio calls --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        if self.phase is Phase.HANDSHAKE:
            self.phase, self._since = Phase.FIRST_BYTE, self._loop.time()
            self._wrote_at = self._since
        else:
            self._owner.opened(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._owner.lost(self)

    def data_received(self, data: bytes) -> None:
        self._read_at = self._loop.time()
        if self._is_deaf:
            return
        if data and self.phase in _BEFORE_HEADERS:
            if self.phase is Phase.NEXT_REQUEST:
                self._since = self._read_at
            self._header_bytes = 0
            self.phase = Phase.HEADERS
        num_requests = self._request_count
        super().data_received(data)
        if self._request_count != num_requests:
            message, body = self._messages[-1]
            is_chunked = getattr(message, "chunked", False)
            self._chunks = ChunkMeter(body) if is_chunked else None
        elif self._chunks is not None and self._chunks.add(len(data)):
            self._owner.count("malformed")
            self._is_deaf = True  # to the rest of a body with too much around its data
        if self.phase is not Phase.HEADERS:
            return
        # aiohttp counts each request whose headers it has parsed.
        if self._request_count != self._num_answered:
            self.phase = Phase.RESPONSE
            self._owner.is_busy(self)
            return
        self._header_bytes += len(data)
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(headers_too_large(), "malformed")

    # -- what aiohttp calls --------------------------------------------------------

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Returns the JSON answer to bytes that are not HTTP, or to a fault of ours."""
        is_malformed = isinstance(exc, (http_exceptions.HttpProcessingError, *_BODY))
        if is_malformed:
            self._owner.count("malformed")
        else:
            self.log_exception("error handling a request", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has been sent in part already")
        if is_malformed:
            return Refusal(malformed(exc))
        text = message or "internal error; see the server's log"
        return Refusal(ApiError(status, text, code="internal_error"))

    async def finish_response(
        self,
        request: web.BaseRequest,
        resp: web.StreamResponse,
        start_time: float | None,
    ) -> tuple[web.StreamResponse, bool]:
        """Sends the rest of a response."""
        if isinstance(resp, Refusal):
            return await self._finish_refusal(request, resp, start_time)
        finished = await super().finish_response(request, resp, start_time)
        self._num_answered += 1
        if self._request_count == self._num_answered:
            self.phase = Phase.NEXT_REQUEST
            self._since = self._loop.time()
            self._owner.is_idle(self)
        return finished

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Logs faults of ours; a client's malformed body is none."""
        if not isinstance(kw.get("exc_info"), _BODY):
            super().log_exception(*args, **kw)

    # -- what the server calls -----------------------------------------------------

    def arrive(self, leave: Callable[[], None]) -> None:
        """Counts a connection before its handshake, which `leave` gives up."""
        self.phase, self._leave = Phase.HANDSHAKE, leave
        self._owner.opened(self)

    @property
    def is_open(self) -> bool:
        """Whether there is no handshake, or it has succeeded."""
        return self.phase is not Phase.HANDSHAKE

    def fail(self, reason: str | None) -> None:
        """Forgets a connection without handshake; without reason, its client left."""
        if reason is not None and self._leave is not None:  # else it is counted already
            self._owner.count(reason)
        self._owner.lost(self)

    @contextmanager
    def reading_body(self, body: StreamReader) -> Iterator[None]:
        """Limits the time of a body that is read inside.

        Reading raises `BodyTimeoutError` after the limit.
        """
        self._body, self._since = body, self._loop.time()
        self.phase = Phase.BODY
        try:
            yield
        finally:
            self._body, self.phase = None, Phase.RESPONSE

    def check(self, now: float) -> None:
        """Ends the connection, or its body, if a limit of time is exceeded."""
        if self._wire is None:
            if now - self._since >= self._owner.limits.header:
                self.cut("tls_handshake")
            return
        unsent = self._wire.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._wrote_at = now
        self._unsent = unsent
        if now - self._wrote_at >= self._owner.limits.write:
            self.cut("write_timeout")
        elif self.phase is not Phase.RESPONSE:
            self._check_phase(now, now - self._since, self._owner.limits)

    def cut(self, reason: str) -> None:
        """Ends the connection at once, and with it its request."""
        if self._wire is not None or self._leave is not None:
            self._owner.count(reason)
        self._abort()

    def close_after_sending(self, reason: str) -> None:
        """Ends the connection as soon as everything is sent."""
        assert self._wire is not None
        self._owner.count(reason)
        self.phase = Phase.LAST_WRITES
        self._wire.close()

    def becomes_regular(self) -> bool:
        """Finds room for an extra connection; returns False without any."""
        self.is_extra = not self._owner.make_regular()
        return not self.is_extra

    def refused(self) -> None:
        """Counts a request that was refused because there are too many connections."""
        self._owner.count("refused")

    def _check_phase(
        self, now: float, seconds: float, limits: ConnectionLimits
    ) -> None:
        match self.phase:
            case Phase.FIRST_BYTE if seconds >= limits.header:
                self.cut("header_timeout")
            case Phase.HEADERS if seconds >= limits.header:
                self._refuse(headers_too_slow(limits.header), "header_timeout")
            case Phase.NEXT_REQUEST if seconds >= limits.keep_alive:
                self.close_after_sending("keep_alive")
            case Phase.CLIENTS_CLOSE if seconds >= LINGER_SECONDS:
                self._abort()
            case Phase.BODY if self._body is not None:
                pause = now - max(self._read_at, self._since)
                if pause >= limits.body or seconds >= limits.whole_body:
                    self._owner.count("body_timeout")
                    self._body.set_exception(BodyTimeoutError())

    def _abort(self) -> None:
        if self._wire is not None:
            self._wire.abort()
        elif self._leave is not None:
            leave, self._leave = self._leave, None
            leave()

    def _refuse(self, error: ApiError, reason: str) -> None:
        """Answers a request whose headers are not complete."""
        self._owner.count(reason)
        self._send_last(error, None)

    async def _finish_refusal(
        self, request: web.BaseRequest, refusal: Refusal, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        request_id = None
        if isinstance(request, web.Request):
            request_id = identity_of(request).request_id
        self._send_last(refusal.error, request_id)
        self.log_access(request, refusal, start_time)
        # Cancelled when the client closes, which it usually does at once.
        await asyncio.sleep(LINGER_SECONDS)
        return refusal, True

    def _send_last(self, error: ApiError, request_id: str | None) -> None:
        """Sends an answer and the end of the stream; ignores what still comes."""
        if self._wire is None or self._wire.is_closing():
            return
        self.phase, self._since = Phase.CLIENTS_CLOSE, self._loop.time()
        self._wire.write(to_bytes(error, request_id))
        if self._wire.can_write_eof():  # TLS cannot, and says it when it closes
            with suppress(OSError):  # the client has left
                self._wire.write_eof()
        self.close()
