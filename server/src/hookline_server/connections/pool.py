"""All connections of a server: their number, room for new ones, limits of time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from hookline_metrics.front_end_parts import ConnectionStats
from hookline_server.api_servers.share import Share
from hookline_server.connections.connection import Connection
from hookline_server.connections.limits import ConnectionLimits, connections_allowed

EXTRA_CONNECTIONS = 8
"""Connections beyond the maximum, which are answered about the server's health."""

MOST_EVICTIONS = 8
"""Evictions per turn of the event loop, after which the descriptors are free."""

LOG_SECONDS = 60.0

logger = logging.getLogger(__name__)


class ConnectionPool:
    """The connections of all sockets of a server, on one event loop.

    One timer checks the limits of all of them.

    Attributes:
        limits: Their limits.
        max_connections: Maximum number of open connections, as of now.
        is_draining: Whether each connection ends after its current response.
    """

    def __init__(self, limits: ConnectionLimits, share: Share | None = None) -> None:
        self.limits = limits
        self._share = share
        allowed = connections_allowed()
        self.max_connections = min(limits.max_connections or allowed, allowed)
        self.is_draining = False
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        self._leaving: set[Connection] = set()
        self._evicted: set[Connection] = set()
        # Oldest first.
        self._idle: dict[Connection, None] = {}
        self._num_opening = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._resume: list[Callable[[], None]] = []
        self._closed: Counter[str] = Counter()
        self._accept_errors = AcceptErrors()

    def stats(self) -> ConnectionStats:
        """The connections in numbers, for the loggers."""
        return ConnectionStats(
            open=len(self._open),
            maximum=self.max_connections,
            accept_errors=self._accept_errors.count,
            closed=tuple(sorted(self._closed.items())),
        )

    # -- what a socket's acceptor calls ---------------------------------------------

    def make_room(self) -> bool | None:
        """Makes room for one more connection, if need be by closing an idle one.

        Returns:
            False if there is room, True if it may only ask for the server's health,
            None if there is none now.
        """
        if len(self._evicted) >= MOST_EVICTIONS:
            return None
        if self._shrink(self.max_connections - 1):
            return False
        most = self.max_connections + EXTRA_CONNECTIONS
        return True if self._num_taken < most or self._evict() else None

    @property
    def is_next(self) -> bool:
        """Whether no other server on the socket should rather accept."""
        return self._share is None or self._share.is_next

    def opening(self) -> None:
        """Counts a connection that was accepted; `opened` or `unopened` follows."""
        self._num_opening += 1
        self._tell()

    def unopened(self) -> None:
        """Forgets a connection that was lost before it was opened."""
        self._num_opening -= 1
        self._tell()

    def when_room(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once, when a connection has ended or may be closed."""
        self._resume.append(resume)

    def accept_failed(self, error: OSError) -> None:
        """Counts a failure to accept, and closes an idle connection."""
        self._accept_errors.add(error, self._loop.time())
        self._evict()

    # -- what a connection calls -----------------------------------------------------

    def opened(self, connection: Connection) -> None:
        self._num_opening -= 1
        self._open.add(connection)
        self._idle[connection] = None
        self._wake()
        if self._sweep is None:
            self._plan_sweep()

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._leaving.discard(connection)
        self._evicted.discard(connection)
        self._idle.pop(connection, None)
        self._tell()
        self._wake()

    def is_idle(self, connection: Connection) -> None:
        if connection in self._open:
            self._idle[connection] = None
            self._wake()
            if self.is_draining:
                self._leave(connection).close_after_sending("drained")

    def make_regular(self) -> bool:
        """Makes an extra connection a regular one, in the place of an idle one.

        Returns:
            Whether that was possible.
        """
        return self._shrink(self.max_connections)

    def is_busy(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    def count(self, reason: str) -> None:
        self._closed[reason] += 1

    # -- what the server calls -------------------------------------------------------

    def drain(self) -> None:
        """Closes idle connections, and each other one after its next response.

        Connections without any request yet stay open: their clients may be sending one,
        and would see a reset instead of an answer.
        """
        self.is_draining = True
        for connection in list(self._idle):
            if connection.is_between_requests:
                self._leave(connection).close_after_sending("drained")

    def close(self) -> None:
        """Ends all connections and the timer."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._resume.clear()
        for connection in list(self._open):
            self._leave(connection).cut("drained")

    @property
    def _num_taken(self) -> int:
        return len(self._open) - len(self._leaving) + self._num_opening

    def _tell(self) -> None:
        if self._share is not None:
            self._share.connections_changed(len(self._open) + self._num_opening)

    def _shrink(self, most: int) -> bool:
        """Closes idle connections until so many are left; False if more are busy."""
        excess = self._num_taken - most
        if excess > len(self._idle):
            return False
        for _ in range(excess):
            self._evict()
        return True

    def _evict(self) -> bool:
        """Closes the connection that has been idle longest; False if none is idle."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        self._evicted.add(oldest)
        self._leave(oldest).cut("evicted")
        return True

    def _leave(self, connection: Connection) -> Connection:
        """Stops counting a connection that is about to end."""
        self._idle.pop(connection, None)
        self._leaving.add(connection)
        return connection

    def _wake(self) -> None:
        if self._resume:
            resume, self._resume = self._resume, []
            for each in resume:
                each()

    def _plan_sweep(self) -> None:
        self._sweep = self._loop.call_later(self.limits.sweep_seconds, self._check_all)

    def _check_all(self) -> None:
        self._sweep = None
        now = self._loop.time()
        for connection in list(self._open):
            connection.check(now)
        if self._open:
            self._plan_sweep()


class AcceptErrors:
    """Counts failures to accept connections, and logs them once per minute.

    Attributes:
        count: Their number since the start.
    """

    def __init__(self) -> None:
        self.count = 0
        self._num_logged = 0
        self._logged_at: float | None = None

    def add(self, error: OSError, now: float) -> None:
        """Counts a failure at a time in seconds."""
        self.count += 1
        if self._logged_at is not None and now - self._logged_at < LOG_SECONDS:
            return
        new, self._num_logged = self.count - self._num_logged, self.count
        self._logged_at = now
        logger.warning("cannot accept connections: %s (%d times)", error, new)
