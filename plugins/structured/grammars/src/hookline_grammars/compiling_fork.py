"""A fork of the compiling process, which is cheap to replace when it is killed.

The process imports the backends once and compiles nothing itself. A grammar that
exceeds a limit ends the fork, and the next grammar gets another one within
milliseconds.
"""

import os
import select
import signal
import socket
from collections.abc import Callable

from hookline_processes.limits import LENGTH_BYTES, end_with_owner, next_frame


class CompilingFork:
    """A fork of this process that answers one frame with one frame at a time."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        """Forks; the fork calls `serve`, and ends when that returns or raises."""
        self._channel, theirs = socket.socketpair()
        with theirs:
            owner = os.getpid()
            self._pid = os.fork()
            if not self._pid:
                self._channel.close()
                _serve_and_exit(serve, theirs, owner)
        self._incoming = self._channel.makefile("rb")

    def reply(self, request: bytes, owner: socket.socket) -> bytes | int:
        """Forwards a message and waits for the reply.

        Args:
            request: The message, without its length.
            owner: Socket of the process that waits for the reply; it becomes readable
                when that process gives up.

        Returns:
            The reply's frame, or the fork's exit code if it ended without a reply.
        """
        try:
            self._channel.sendall(len(request).to_bytes(LENGTH_BYTES, "little"))
            self._channel.sendall(request)
        except OSError:
            return self.end()
        ready, _, _ = select.select([self._channel, owner], [], [])
        data = next_frame(self._incoming) if self._channel in ready else None
        if data is None:
            return self.end(kill=self._channel not in ready)
        return len(data).to_bytes(LENGTH_BYTES, "little") + data

    def end(self, *, kill: bool = True) -> int:
        """Ends the fork, reaps it, and returns its exit code."""
        if kill:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._incoming.close()
        self._channel.close()
        return os.waitstatus_to_exitcode(status)


def _serve_and_exit(
    serve: Callable[[socket.socket], None], channel: socket.socket, owner: int
) -> None:
    """Runs the fork; its code is 1 unless `serve` returns."""
    code = 1
    try:
        os.close(0)  # the owner's socket: whoever holds it keeps it open
        end_with_owner(owner)
        serve(channel)
        code = 0
    finally:
        os._exit(code)
