"""One API server's process, as its parent starts, signals and ends it."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterable

import msgspec

from hookline_processes.supervised import OwnedProcess
from hookline_server.api_servers.link import Link
from hookline_server.api_servers.messages import ToParent

_MODULE = "hookline_server.api_servers.child"


class ApiServerProcess(OwnedProcess):
    """A process that this one owns, with a channel to it.

    A terminal's Ctrl-C does not reach it: the parent lets the servers drain.
    """

    def __init__(self, name: str, descriptors: Iterable[int]) -> None:
        """Starts a process that inherits these descriptors; `connect` follows."""
        self._end, theirs = socket.socketpair()
        try:
            super().__init__(
                _MODULE,
                (theirs.fileno(),),
                name=name,
                pass_fds=(theirs.fileno(), *descriptors),
                is_apart=True,
            )
        except BaseException:
            self._end.close()
            raise
        finally:
            theirs.close()

    async def connect(self) -> Link[ToParent]:
        """Returns the channel to it."""
        return await Link.over(self._end, msgspec.msgpack.Decoder(ToParent))

    def ask_to_drain(self) -> None:
        """Lets it serve its open requests and end."""
        self.signal(signal.SIGTERM)

    async def ended(self) -> str:
        """Waits for the end of the process; returns how it ended, in one clause."""
        await _wait_for_end(self.pid)
        self.ask_to_end()
        await asyncio.to_thread(self.end, 0.0)
        return self.end_reason or "it ended"


async def _wait_for_end(pid: int) -> None:
    """Waits without a thread, and without looking again and again."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
