"""The front end's end of a text process: starts it, talks to it, ends it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hookline.child_limits import LENGTH_BYTES, frame
from hookline.text.environment import small_environment
from hookline.text.messages import Job, Reply

_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """Limits of a text process.

    Attributes:
        cpu_seconds: Processor time to tokenize one job's texts.
        seconds: Time for one job by the clock, however busy the machine is.
        memory_bytes: Address space for jobs.
    """

    cpu_seconds: float
    seconds: float
    memory_bytes: int


class TextProcess:
    """A running text process; used on the event loop only."""

    def __init__(
        self,
        setup_fd: int,
        limits: TextLimits,
        *,
        take: Callable[[Reply], None],
        ended: Callable[[], None],
    ) -> None:
        """Starts the process and returns at once.

        Args:
            setup_fd: File with the `Setup`.
            limits: Limits of a job.
            take: Called with each reply, in the order of the jobs.
            ended: Called once if the process ends by itself.
        """
        self._take = take
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._is_open = True
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        with theirs:
            self.process = _start(setup_fd, limits, theirs)
        self._loop.add_reader(self._channel, self._read)

    def send(self, job: Job) -> None:
        """Sends a job; does not wait.

        Raises:
            OverflowError: An integer has more than 64 bits.
            UnicodeEncodeError: A text has characters that are not Unicode's.
        """
        data = frame(job)
        if not self._outgoing:
            data = data[self._write(data) :]
            if not data:
                return
            self._loop.add_writer(self._channel, self._flush)
        self._outgoing += data

    def kill(self) -> None:
        """Ends the process without calling `ended`; its owner has to reap it."""
        self._close()
        self.process.kill()

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return self._channel.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # it has ended, which the reader finds out
            return len(data)

    def _flush(self) -> None:
        del self._outgoing[: self._write(self._outgoing)]
        if not self._outgoing:
            self._loop.remove_writer(self._channel)

    def _read(self) -> None:
        try:
            data = self._channel.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.kill()
            self._ended()
            return
        self._incoming += data
        while self._is_open and (whole := self._next_frame()) is not None:
            self._take(self._decoder.decode(whole))

    def _next_frame(self) -> bytes | None:
        if len(self._incoming) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + int.from_bytes(self._incoming[:LENGTH_BYTES], "little")
        if len(self._incoming) < end:
            return None
        whole = bytes(self._incoming[LENGTH_BYTES:end])
        del self._incoming[:end]
        return whole


def _start(
    setup_fd: int, limits: TextLimits, channel: socket.socket
) -> subprocess.Popen[bytes]:
    limited = (limits.cpu_seconds, limits.memory_bytes)
    arguments = map(str, (setup_fd, *limited, os.getpid()))
    return subprocess.Popen(  # noqa: S603 - no input of anyone else
        [sys.executable, "-m", "hookline.text.process", *arguments],
        stdin=channel.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # Rust writes its panics there, in its own format
        pass_fds=[setup_fd],
        env=small_environment(),
    )
