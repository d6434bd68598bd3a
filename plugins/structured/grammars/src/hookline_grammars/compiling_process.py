"""The engine's end of a compiling process: starts it, talks to it, ends it."""

import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from hookline.structured_outputs import GrammarSpec
from hookline_grammars.messages import (
    ENDED,
    Broken,
    Compiled,
    Ready,
    Refused,
    Reply,
    too_slow,
)
from hookline_processes.limits import frame, start_child, take_frame
from hookline_processes.supervised import end_by_force

_START_SECONDS = 120.0
"""Time limit for creating the backend, on a busy machine."""
_SLOWEST = 20.0
"""Wall-clock seconds allowed per second of processor time, on a busy machine."""
_LEAVE_SECONDS = 1.0
"""Time for the process to end its fork before it is killed itself."""
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """Limits of a compiling process.

    Attributes:
        cpu_seconds: Processor time for one grammar.
        memory_bytes: Address space for grammars.
    """

    cpu_seconds: float
    memory_bytes: int


class CompilingProcess:
    """A process that compiles one grammar at a time; only `kill` is thread-safe."""

    def __init__(self, setup_fd: int, limits: CompileLimits) -> None:
        """Starts the process and returns at once; `setup_fd` has the `Setup`.

        Raises:
            OSError: It cannot be started.
        """
        self._limits = limits
        self._incoming = bytearray()
        self._decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
        self._channel, theirs = socket.socketpair()
        try:
            self._process = start_child(
                "hookline_grammars.process",
                setup_fd,
                theirs,
                cpu_seconds=limits.cpu_seconds,
                memory_bytes=limits.memory_bytes,
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()

    def wait_until_ready(self) -> str:
        """Waits for the backend; returns why it failed, or an empty text."""
        match self._reply(_START_SECONDS):
            case Ready():
                return ""
            case Broken(reason):
                return reason
            case _:
                return self._death("its process has ended at the start")

    def compile(self, spec: GrammarSpec) -> Compiled | Refused:
        """Compiles a grammar; if the process ends meanwhile, `has_ended` is True."""
        begun = time.perf_counter()
        try:
            self._channel.sendall(frame(spec))
            reply = self._reply(self._limits.cpu_seconds * _SLOWEST)
        except OSError:
            reply = None
        if isinstance(reply, Compiled | Refused):
            return reply
        reason = self._death(ENDED)
        return Refused(reason, time.perf_counter() - begun, is_limit=True)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def hang_up(self) -> None:
        """Lets the process end its fork and itself; may be called in any thread."""
        with suppress(OSError):  # it is closed
            self._channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the process and reaps it; may be called twice."""
        self.hang_up()
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            end_by_force(self._process, "the grammar compiler")
        self._channel.close()

    def _death(self, otherwise: str) -> str:
        """Ends the process if it is still running; returns the cause in words."""
        was_late = self._process.poll() is None
        self.close()
        return too_slow(self._limits.cpu_seconds) if was_late else otherwise

    def _reply(self, seconds: float) -> Reply | None:
        """Returns the next reply; None at a timeout or if the process has ended."""
        deadline = time.monotonic() + seconds
        while (whole := take_frame(self._incoming)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._channel.settimeout(left)
            try:
                data = self._channel.recv(_CHUNK_BYTES)
            except OSError:
                return None
            if not data:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_LEAVE_SECONDS)
                return None
            self._incoming += data
        try:
            return self._decoder.decode(whole)
        except msgspec.MsgspecError:  # not what it is written to say
            return None
