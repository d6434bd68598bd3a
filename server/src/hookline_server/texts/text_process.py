"""The front end's end of a text process: starts it, talks to it, ends it."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import Popen

import msgspec

from hookline_processes.limits import frame, start_child, take_frame
from hookline_processes.supervised import describe_exit
from hookline_server.texts.messages import Job, Reply

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
        ended: Callable[[str], None],
    ) -> None:
        """Starts the process and returns at once.

        Args:
            setup_fd: File with the `Setup`.
            limits: Limits of a job.
            take: Called with each reply, in the order of the jobs.
            ended: Called once if the process ends by itself or sends what is no reply,
                with how, in one clause.

        Raises:
            OSError: It cannot be started.
        """
        self._take = take
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._is_open = True
        self._channel, self.process = _start(setup_fd, limits)
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
            code = self.process.poll()
            self._end("it closed its socket" if code is None else describe_exit(code))
            return
        self._incoming += data
        self._take_replies()

    def _take_replies(self) -> None:
        while self._is_open and (whole := take_frame(self._incoming)) is not None:
            try:
                reply = self._decoder.decode(whole)
            except msgspec.MsgspecError as error:
                self._end(f"it sent what is no reply: {error}")
            else:
                self._take(reply)

    def _end(self, how: str) -> None:
        self.kill()
        self._ended(how)


def _start(setup_fd: int, limits: TextLimits) -> tuple[socket.socket, Popen[bytes]]:
    """Starts a process; returns this end of the channel to it, too."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        process = start_child(
            "hookline_server.texts.process",
            setup_fd,
            theirs,
            cpu_seconds=limits.cpu_seconds,
            memory_bytes=limits.memory_bytes,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, process
