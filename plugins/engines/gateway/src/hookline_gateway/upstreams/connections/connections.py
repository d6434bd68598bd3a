"""The connections to all instances, which are kept for a while between requests."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from hookline_gateway.upstreams.connections.connection import Connection
from hookline_gateway.upstreams.connections.errors import (
    CannotConnectError,
    NoConnectionInTimeError,
)

IDLE_SECONDS = 4.0
"""How long an idle connection is kept: not as long as servers do, some of them 5 s.

A request on one that the server closes meanwhile would fail."""

NEXT_ADDRESS_SECONDS = 0.25
"""Time after which a name's next address is tried, too (RFC 8305)."""

_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instance is.

    Attributes:
        host: Name or address.
        port: TCP port.
        tls: How its connections are encrypted; None if they are not.
        name: What requests call it.
        path: Path that precedes those of requests.
        next_after: Seconds after which the next address of a name is tried, too; None
            for an address.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    name: str
    path: str
    next_after: float | None

    @classmethod
    def of(cls, url: str) -> "Origin":
        """Returns that of a URL."""
        parts = urlsplit(url)
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or _PORTS[parts.scheme]
        name = parts.netloc.rpartition("@")[2]
        host = parts.hostname or ""
        next_after = None if _is_address(host) else NEXT_ADDRESS_SECONDS
        return cls(host, port, tls, name, parts.path.rstrip("/"), next_after)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Connections:
    """Opens connections and keeps the idle ones."""

    def __init__(
        self, connect_timeout: float, idle_timeout: float | None = None
    ) -> None:
        """Opens none yet.

        Args:
            connect_timeout: Maximum time to connect.
            idle_timeout: Maximum time in which nothing comes; None limits no other
                time.
        """
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self._origins: dict[str, Origin] = {}
        self._idle: dict[Origin, list[Connection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def origin(self, url: str) -> Origin:
        """Returns where the instance of a URL is."""
        if (found := self._origins.get(url)) is None:
            found = self._origins[url] = Origin.of(url)
        return found

    def idle(self, origin: Origin) -> Connection | None:
        """Returns an idle connection; None if there is none."""
        idle = self._idle.get(origin)
        oldest = time.monotonic() - IDLE_SECONDS
        while idle:
            connection = idle.pop()
            if connection.is_usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    async def open(self, origin: Origin) -> Connection:
        """Opens a connection.

        Raises:
            CannotConnectError: There is nobody, or not in time.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._idle_timeout),
                    origin.host,
                    origin.port,
                    ssl=origin.tls,
                    happy_eyeballs_delay=origin.next_after,
                )
        except TimeoutError as error:
            text = f"no connection within {self._connect_timeout:g} s"
            raise NoConnectionInTimeError(text) from error
        except (OSError, UnicodeError) as error:
            raise CannotConnectError(str(error) or type(error).__name__) from error
        return connection

    def give_back(self, origin: Origin, connection: Connection) -> None:
        """Keeps a connection for another request, if it can be used for one."""
        connection.finish()
        if not connection.is_usable:
            return
        self._idle.setdefault(origin, []).append(connection)
        if self._sweeping is None:
            loop = asyncio.get_running_loop()
            self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep)

    def close(self) -> None:
        """Closes the idle ones."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()

    def _sweep(self) -> None:
        """Closes those that were idle for too long."""
        loop = asyncio.get_running_loop()
        self._sweeping, oldest = None, time.monotonic() - IDLE_SECONDS
        for origin, idle in list(self._idle.items()):
            kept = []
            for each in idle:
                if each.is_usable and each.idle_since > oldest:
                    kept.append(each)
                else:
                    each.abort()
            self._idle[origin] = kept
            if not kept:
                del self._idle[origin]
        if self._idle:
            self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep)
