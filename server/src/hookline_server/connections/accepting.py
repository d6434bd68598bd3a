"""Accepts the connections of a listening socket within the limits of a pool."""

import asyncio
import socket
from collections.abc import Callable

from hookline_server.connections.connection import Connection
from hookline_server.connections.pool import ConnectionPool
from hookline_server.tls.certificates import Tls
from hookline_server.tls.handshake import open_with_tls

ACCEPTS_PER_TURN = 64
"""Between them, the event loop serves the connections that are open."""

RETRY_SECONDS = 0.1

YIELD_SECONDS = 0.002
MOST_YIELDS = 5
"""How often a connection is left to another server, which may be too busy for it."""

MakeConnection = Callable[[bool], Connection]


class Acceptor:
    """Accepts connections until it is closed; it owns the listening socket.

    asyncio's own servers accept without limit, and log an error for each attempt while
    file descriptors are missing.
    """

    def __init__(
        self,
        listening: socket.socket,
        pool: ConnectionPool,
        make: MakeConnection,
        tls: Tls | None = None,
    ) -> None:
        """Starts to accept.

        Args:
            listening: A listening socket in non-blocking mode.
            pool: The pool that its connections belong to.
            make: Makes a connection; its argument is `is_extra`.
            tls: How connections are encrypted; None if they are not.
        """
        self._listening = listening
        self._pool = pool
        self._make = make
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._num_yields = 0
        self._resume()

    def close(self) -> None:
        """Stops accepting; connections stay."""
        self._is_closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._pool.is_next and self._num_yields < MOST_YIELDS:
                self._num_yields += 1
                self._loop.remove_reader(self._listening)
                self._loop.call_later(YIELD_SECONDS, self._resume)
                return
            is_extra = self._pool.make_room()
            if is_extra is None:
                self._loop.remove_reader(self._listening)
                self._pool.when_room(self._resume)
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                self._num_yields = 0
                return
            except OSError as error:
                self._pool.accept_failed(error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(RETRY_SECONDS, self._resume)
                return
            self._num_yields = 0
            accepted.setblocking(False)
            self._pool.opening()
            task = self._loop.create_task(self._open(accepted, is_extra=is_extra))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, *, is_extra: bool) -> None:
        connection = self._make(is_extra)
        if self._tls is not None:
            await open_with_tls(accepted, connection, self._tls, self._pool.limits)
            return
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            # The client has left already.
            accepted.close()
            self._pool.unopened()
