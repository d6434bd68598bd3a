"""Limits of connections: their number, and the time of each phase."""

import resource
from dataclasses import dataclass
from pathlib import Path

RESERVED_DESCRIPTORS = 24
"""File descriptors for everything but clients: files, pipes, a restarted engine."""

MOST_DESCRIPTORS = 65536
"""Some systems allow a thousand million, and some libraries loop over all of them."""

FEWEST_CONNECTIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a server's connections; times are in seconds.

    Attributes:
        max_connections: Maximum number of open connections; None for as many as the
            file descriptors allow.
        keep_alive: Maximum time between two requests.
        header: Maximum time from the first byte of a request, or from the connection's
            start, to the end of the headers.
        body: Maximum time between two pieces of a body; the whole body may take ten
            times as long.
        write: Maximum time in which a client takes nothing of what is sent to it.
    """

    max_connections: int | None = None
    keep_alive: float = 75.0
    header: float = 20.0
    body: float = 60.0
    write: float = 60.0

    @property
    def whole_body(self) -> float:
        return 10 * self.body

    @property
    def sweep_seconds(self) -> float:
        """Time between two checks of all connections."""
        shortest = min(self.keep_alive, self.header, self.body, self.write)
        return min(max(shortest / 4, 0.05), 1.0)


def raise_descriptor_limit() -> None:
    """Raises this process's soft limit of file descriptors towards the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = MOST_DESCRIPTORS if hard == unlimited else min(hard, MOST_DESCRIPTORS)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_allowed() -> int:
    """Returns how many connections the free file descriptors allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = MOST_DESCRIPTORS
    free = soft - sum(1 for _ in Path("/dev/fd").iterdir()) - RESERVED_DESCRIPTORS
    return max(free, FEWEST_CONNECTIONS)
