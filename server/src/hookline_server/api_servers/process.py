"""One API server's process, as its parent starts, signals and ends it."""

import asyncio
import os
import signal
from collections.abc import Iterable

import msgspec

from hookline_processes.async_channel import AsyncChannel
from hookline_processes.supervised import Supervised
from hookline_server.api_servers.messages import ENCODER, ToParent

_MODULE = "hookline_server.api_servers.child"


class ApiServerProcess(Supervised):
    """The process of an API server.

    A terminal's Ctrl-C does not reach it: the parent lets the servers drain.
    """

    def __init__(self, number: int, descriptors: Iterable[int]) -> None:
        """Starts a process that inherits these descriptors; `connect` follows."""
        super().__init__(
            _MODULE,
            name=f"API server {number}",
            role=f"api-{number}",
            pass_fds=(*descriptors,),
            is_apart=True,
        )

    def connect(self) -> AsyncChannel[ToParent]:
        """Returns the channel to it, which outlives it: its last messages are read."""
        end = self.copy_channel()
        return AsyncChannel(end, msgspec.msgpack.Decoder(ToParent), ENCODER)

    def ask_to_drain(self) -> None:
        """Lets it serve its open requests and end."""
        self.signal(signal.SIGTERM)

    async def ended(self) -> str:
        """Waits for the end of the process; returns how it ended, in one clause."""
        await _wait_for_end(self.pid)
        await asyncio.to_thread(self.close, 0.0)
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
