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

from hookline_processes.frames import FrameError, read_frame, write_frame
from hookline_processes.owner import Owner


class CompilingFork:
    """A fork of this process that answers one message with one at a time."""

    def __init__(self, serve: Callable[[Owner], None]) -> None:
        """Forks; the fork calls `serve`, and ends when that returns or raises."""
        self._channel, theirs = socket.socketpair()
        with theirs:
            owner = os.getpid()
            self._pid = os.fork()
            if not self._pid:
                self._channel.close()
                _serve_and_exit(serve, theirs.detach(), owner)

    def reply(self, request: bytes, owner: socket.socket) -> bytes | int:
        """Forwards a message and waits for the reply.

        Args:
            request: The message.
            owner: Socket of the process that waits for the reply; it becomes readable
                when that process gives up.

        Returns:
            The reply, or the fork's exit code if it ended without a reply.
        """
        try:
            write_frame(self._channel.fileno(), request)
        except OSError:
            return self.stop()
        ready, _, _ = select.select([self._channel, owner], [], [])
        if self._channel not in ready:
            return self.stop()
        try:
            reply = read_frame(self._channel.fileno())
        except FrameError:  # it ended while it wrote
            reply = None
        return self.stop(kill=False) if reply is None else reply

    def kill(self) -> None:
        """Kills the fork; from any thread, as long as it is not reaped."""
        os.kill(self._pid, signal.SIGKILL)

    def stop(self, *, kill: bool = True) -> int:
        """Ends the fork, reaps it, and returns its exit code."""
        if kill:
            self.kill()
        _, status = os.waitpid(self._pid, 0)
        self._channel.close()
        return os.waitstatus_to_exitcode(status)


def _serve_and_exit(serve: Callable[[Owner], None], channel: int, pid: int) -> None:
    """Runs the fork; its code is 1 unless `serve` returns."""
    code = 1
    try:
        owner = Owner(pid, channel)
        owner.watch()
        serve(owner)
        code = 0
    finally:
        os._exit(code)
