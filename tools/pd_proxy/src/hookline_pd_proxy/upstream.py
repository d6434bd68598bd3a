"""One request to one instance."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from hookline_pd_proxy.headers import Headers
from hookline_pd_proxy.instance import Instance

UPSTREAM_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
"""What may go wrong with an instance's connection."""

CANNOT_CONNECT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

BUSY_STATUS = 503
RETRIED_STATUSES = frozenset({429, 500, 502, BUSY_STATUS, 504})
"""What another instance may do better."""


class UnreachableError(Exception):
    """An instance gave no answer, or none to its first byte."""

    def __init__(self, instance: Instance, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        super().__init__(f"the {instance.role} instance {instance.name}: {what}")


class BrokenError(Exception):
    """An instance's answer broke off in the middle."""


class TooLargeError(Exception):
    """An answer is larger than it can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent.

    Attributes:
        path: With the query.
    """

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An instance's answer, of which the first bytes have come.

    Attributes:
        head: Status and headers.
        first: The first bytes of its body; empty if it has none.
    """

    head: aiohttp.ClientResponse
    first: bytes

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether another instance may do better."""
        return self.head.status in RETRIED_STATUSES

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Raises:
            BrokenError: It does not come to its end.
        """
        chunk = self.first
        while chunk:
            yield chunk
            try:
                chunk = await self.head.content.readany()
            except UPSTREAM_ERRORS as error:
                raise BrokenError(f"{type(error).__name__}: {error}") from error

    async def whole(self, most_bytes: int) -> bytes:
        """The whole body.

        Raises:
            BrokenError: It does not come to its end.
            TooLargeError: It has more bytes than that.
        """
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > most_bytes:
                raise TooLargeError
        return bytes(body)


class Upstream:
    """Asks instances over connections that are kept."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @asynccontextmanager
    async def ask(self, instance: Instance, message: Message) -> AsyncIterator[Answer]:
        """An answer; leaving early closes the connection, which ends the request.

        Raises:
            UnreachableError: There is none.
        """
        with instance.used():
            head = None
            try:
                try:
                    head = await self._session.request(
                        message.method,
                        instance.url + message.path,
                        headers=message.headers,
                        # aiohttp complains of bytes that are many.
                        data=io.BytesIO(message.body) if message.body else None,
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


def new_session(connect_timeout: float) -> aiohttp.ClientSession:
    """A session that changes nothing of what goes through it.

    Time limits are the callers' own but for the connection.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
    )


def _note(instance: Instance, status: int) -> None:
    """503 is no failure: it is how an instance says that it cannot do more now."""
    if status < 500:
        instance.answered()
    elif status != BUSY_STATUS:
        instance.failed(f"it answered {status}")


def _note_failure(instance: Instance, error: Exception) -> None:
    if isinstance(error, CANNOT_CONNECT):
        instance.lost(str(error))
    else:
        instance.failed(f"{type(error).__name__}: {error}")
