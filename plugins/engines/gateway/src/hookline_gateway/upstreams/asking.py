"""One request to one instance."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from hookline_gateway.upstreams.connections.connection import Begin, Connection, Take
from hookline_gateway.upstreams.connections.connections import (
    IDLE_SECONDS,
    Connections,
)
from hookline_gateway.upstreams.connections.errors import CannotConnectError
from hookline_gateway.upstreams.connections.head import Head, request_head
from hookline_gateway.upstreams.headers import Headers
from hookline_gateway.upstreams.instance import Instance

UPSTREAM_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
"""Errors of a connection to an instance."""

CANNOT_CONNECT = (
    CannotConnectError,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
)

_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods of requests that do the same if they are sent twice (RFC 9110, 9.2.2)."""

BUSY_STATUS = 503
RETRIED_STATUSES = frozenset({429, 500, 502, BUSY_STATUS, 504})
"""Statuses with which another instance is tried."""


class UnreachableError(Exception):
    """An instance gave no response, not even a first byte.

    Attributes:
        may_have_it: Whether the request may have reached the instance.
        is_late: Whether it did not respond in time.
    """

    def __init__(self, instance: Instance, error: Exception) -> None:
        self.may_have_it = not isinstance(error, CANNOT_CONNECT)
        self.is_late = isinstance(error, TimeoutError) and self.may_have_it
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        super().__init__(f"the {instance.role} instance {instance.name}: {what}")


class BrokenError(Exception):
    """An instance's response broke off.

    Attributes:
        is_late: Whether nothing more came in time.
    """

    def __init__(self, error: Exception) -> None:
        self.is_late = isinstance(error, TimeoutError)
        super().__init__(f"{type(error).__name__}: {error}".removesuffix(": "))


class TooLargeError(Exception):
    """A response exceeds the maximum size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request to an instance.

    Attributes:
        path: Path and query.
    """

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An instance's response whose first bytes have arrived.

    Attributes:
        head: Status and headers.
        first: First bytes of its body; empty if it has none, or they are taken.
        connection: What the others come from.
    """

    head: Head
    first: bytes
    connection: Connection

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether another instance should be tried."""
        return self.head.status in RETRIED_STATUSES

    async def hand_over(
        self, take: Take, make_room: Callable[[], Awaitable[None]]
    ) -> None:
        """Hands over what follows the first bytes, each piece as it arrives.

        Args:
            take: Gets the pieces.
            make_room: Waits until there is room again; what it raises is passed on.

        Raises:
            BrokenError: The response breaks off.
        """
        try:
            await self.connection.hand_over(take, make_room)
        except UPSTREAM_ERRORS as error:
            if self.connection.error is not error:
                raise
            raise BrokenError(error) from error

    async def whole(self, most_bytes: int) -> bytes:
        """Returns the whole body.

        Raises:
            BrokenError: It breaks off.
            TooLargeError: It exceeds the limit.
        """
        body = bytearray(self.first)

        def keep(piece: bytes) -> bool:
            body.extend(piece)
            return len(body) <= most_bytes

        async def make_room() -> None:
            raise TooLargeError

        await self.hand_over(keep, make_room)
        if len(body) > most_bytes:
            raise TooLargeError
        return bytes(body)


class Upstream:
    """Sends requests to instances over persistent connections."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def ask(
        self,
        instance: Instance,
        message: Message,
        *,
        sent: Callable[[], None] | None = None,
        begin: Begin | None = None,
    ) -> "Asking":
        """Opens a response; leaving early closes the connection and ends the request.

        Entering it raises `UnreachableError` if the instance does not respond.

        Args:
            instance: Where the request goes.
            message: The request.
            sent: Called as soon as it is sent, perhaps twice.
            begin: May take the first bytes in the call in which they come.
        """
        return Asking(self._connections, instance, message, sent, begin)


class Asking:
    """A request to an instance; as a context, it is its response."""

    def __init__(
        self,
        connections: Connections,
        instance: Instance,
        message: Message,
        sent: Callable[[], None] | None,
        begin: Begin | None,
    ) -> None:
        """Sends nothing yet."""
        self._connections = connections
        self._instance = instance
        self._message = message
        self._sent = sent
        self._begin = begin
        self._origin = connections.origin(instance.url)
        self._connection: Connection | None = None

    async def __aenter__(self) -> Answer:
        instance = self._instance
        instance.add_request()
        try:
            answer = await self._first_bytes()
        except UPSTREAM_ERRORS as error:
            instance.drop_request()
            _note_failure(instance, error)
            raise UnreachableError(instance, error) from error
        except BaseException:
            instance.drop_request()
            raise
        self._connection = answer.connection
        _note(instance, answer.head.status)
        return answer

    async def __aexit__(self, *_: object) -> None:
        assert self._connection is not None
        self._connections.give_back(self._origin, self._connection)
        self._instance.drop_request()

    async def _first_bytes(self) -> Answer:
        origin = self._origin
        kept = self._connections.idle(origin)
        if kept is not None:
            try:
                return await self._answer(kept)
            except ConnectionError:  # it was perhaps closed as the request came
                if self._message.method not in _REPEATABLE:
                    raise
        return await self._answer(await self._connections.open(origin))

    async def _answer(self, connection: Connection) -> Answer:
        message, origin = self._message, self._origin
        target, size = origin.path + message.path, len(message.body)
        headers = [("Host", origin.name), *message.headers]
        try:
            head = request_head(message.method, target, headers, size)
            connection.ask(message.method, head, message.body)
            if self._sent is not None:
                self._sent()
            return Answer(*await connection.answer(self._begin), connection)
        except BaseException:
            connection.abort()
            raise


def new_session(connect_timeout: float) -> aiohttp.ClientSession:
    """Opens a session for pages, with a limit of the time to connect."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
    )


def _note(instance: Instance, status: int) -> None:
    """Records the status; 503 is no failure but means that the instance is busy."""
    if status < 500:
        instance.answered()
    elif status != BUSY_STATUS:
        instance.failed(f"it answered {status}")


def _note_failure(instance: Instance, error: Exception) -> None:
    if isinstance(error, CANNOT_CONNECT):
        instance.lost(str(error))
    else:
        instance.failed(f"{type(error).__name__}: {error}")
