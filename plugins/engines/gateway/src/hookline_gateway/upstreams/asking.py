"""One request to one instance."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from hookline_gateway.upstreams.headers import Headers
from hookline_gateway.upstreams.instance import Instance

UPSTREAM_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
"""Errors of a connection to an instance."""

CANNOT_CONNECT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

MOST_PLAIN_BYTES = 1 << 20
"""Size of a body from which on aiohttp warns of bytes."""

IDLE_SECONDS = 4.0
"""How long an idle connection is kept: not as long as servers do, some of them 5 s.

A request on one that the server closes meanwhile would fail."""

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
        first: First bytes of its body; empty if it has none.
    """

    head: aiohttp.ClientResponse
    first: bytes

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether another instance should be tried."""
        return self.head.status in RETRIED_STATUSES

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the body as it arrives.

        Raises:
            BrokenError: It breaks off.
        """
        chunk = self.first
        while chunk:
            yield chunk
            try:
                chunk = await self.head.content.readany()
            except UPSTREAM_ERRORS as error:
                raise BrokenError(error) from error

    async def whole(self, most_bytes: int) -> bytes:
        """Returns the whole body.

        Raises:
            BrokenError: It breaks off.
            TooLargeError: It exceeds the limit.
        """
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > most_bytes:
                raise TooLargeError
        return bytes(body)


class Upstream:
    """Sends requests to instances over persistent connections."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @asynccontextmanager
    async def ask(self, instance: Instance, message: Message) -> AsyncIterator[Answer]:
        """Opens a response; leaving early closes the connection and ends the request.

        Raises:
            UnreachableError: The instance does not respond.
        """
        with instance.used():
            head = None
            try:
                try:
                    head = await self._session.request(
                        message.method,
                        # As the client wrote it: yarl would quote it its own way.
                        URL(instance.url + message.path, encoded=True),
                        headers=message.headers,
                        data=_payload(message.body),
                        allow_redirects=False,
                    )
                    answer = Answer(head, await head.content.readany())
                except UPSTREAM_ERRORS as error:
                    _note_failure(instance, error)
                    raise UnreachableError(instance, error) from error
                _note(instance, head.status)
                yield answer
            finally:
                if head is not None:
                    head.close()


def new_session(
    connect_timeout: float, idle_timeout: float | None = None
) -> aiohttp.ClientSession:
    """Opens a session that forwards bodies unchanged.

    Args:
        connect_timeout: Maximum time to connect.
        idle_timeout: Maximum time in which nothing comes; None limits no other time.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=connect_timeout, sock_read=idle_timeout
        ),
    )


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    if len(body) >= MOST_PLAIN_BYTES:
        return io.BytesIO(body)
    return body or None


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
