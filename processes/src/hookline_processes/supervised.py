"""A process of Hookline's own code that this process starts, watches and ends."""

import logging
import math
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from typing import Any

from hookline_host.oom_kills import oom_kills
from hookline_processes.forked_children import keep_from_forked_children, no_forks
from hookline_processes.frames import FrameBuffer, FrameError, frame
from hookline_processes.log_forwarding import RecordReceiver
from hookline_processes.owner import HELD
from hookline_processes.python import start_python
from hookline_processes.usage import as_option

_LAST_LINES_SECONDS = 1.0
"""Time for the last log lines of a process that has ended."""
_KILLED_SECONDS = 5.0
"""Time for the kernel to end a process that was killed."""
_LOOK_SECONDS = 0.2
"""Time between two looks whether a process has ended that says nothing."""
_LAST_WAIT_SECONDS = 1.0
"""Time for a process to end that has closed its channel, so that one can say how."""
_CHUNK_BYTES = 1 << 18
_FAULTS = (
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
    *(signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP),
)
"""Signals by which a process ends because of what it does itself."""
_NO_OUTPUT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
_logger = logging.getLogger(__name__)


class Output(Enum):
    """What is seen of what a process says.

    Its log and its output; its output alone, of a process that may have no thread for
    its log; or nothing, of one whose libraries write what they like.
    """

    LOG = "log"
    OUTPUT = "output"
    NONE = "none"


class Supervised:
    """Runs a module as a process that ends with this one, and logs through it.

    The module calls `run_supervised`. Its standard input is one end of a channel, on
    which either side sends messages; it ends when this process closes the other end,
    or ends. Its last arguments are this process's id, and the descriptor and the level
    of its log.

    Attributes:
        name: Name of the process in log records, such as `engine 0`.
        channel: This end of the channel.
    """

    def __init__(
        self,
        module: str,
        arguments: Iterable[object] = (),
        *,
        name: str,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        is_apart: bool = False,
        output: Output = Output.LOG,
        role: str = "",
    ) -> None:
        """Starts the process.

        Args:
            module: Name of the module.
            arguments: Its first arguments.
            name: Name of the process.
            pass_fds: Descriptors that it inherits under the same numbers.
            environment: Its variables; None for those of this process.
            is_apart: Whether signals of the terminal do not reach it.
            output: What is seen of what it says.
            role: Its role, for `ps` and metrics; by default its name.

        Raises:
            OSError: It cannot be started; nothing of it is left.
        """
        self.name = name
        self._incoming, self._lock = FrameBuffer(), threading.Lock()
        self._kills_before = oom_kills().mark()
        self._is_out_of_memory: bool | None = None
        named = as_option(role or name.replace(" ", "-"))
        command = [*named, "-m", module, *map(str, arguments)]
        options = {
            "environment": environment,
            "process_group": 0 if is_apart else None,
            **(_NO_OUTPUT if output is Output.NONE else {}),
        }
        has_log = output is Output.LOG
        self._log = self._start(command, pass_fds, options, has_log=has_log)

    def _start(
        self,
        command: Sequence[str],
        pass_fds: Sequence[int],
        options: Mapping[str, Any],
        *,
        has_log: bool,
    ) -> RecordReceiver | None:
        """Starts the process between its channel and its log; returns the latter."""
        level = logging.getLogger("hookline").getEffectiveLevel()
        with no_forks(), ExitStack() as undoing, ExitStack() as theirs:
            self.channel, end = socket.socketpair()
            undoing.callback(self.channel.close)
            theirs.callback(end.close)
            log, log_end = os.pipe() if has_log else (-1, -1)
            if has_log:
                undoing.callback(os.close, log)
                theirs.callback(os.close, log_end)
            # While it imports, none may end it: it inherits what is held back here.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
            undoing.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
            self._process = start_python(
                *(*command, os.getpid(), log_end, level),
                stdin=end.fileno(),
                pass_fds=(*pass_fds, log_end) if has_log else pass_fds,
                **options,
            )
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            undoing.pop_all()
            keep_from_forked_children(self.channel)
        return self._receive_log(log) if has_log else None

    def _receive_log(self, log: int) -> RecordReceiver:
        """Takes over the pipe of its log; ends the process if no thread can do so."""
        pipe = os.fdopen(log, "rb")
        try:
            return RecordReceiver(pipe, self.name)
        except RuntimeError as error:
            pipe.close()
            self._process.kill()
            self.channel.close()
            self._process.wait(_KILLED_SECONDS)
            raise OSError(f"a thread for its log: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def end_reason(self) -> str | None:
        """How the process ended, in one clause; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return describe_exit(code, is_out_of_memory=self.is_out_of_memory)

    @property
    def is_out_of_memory(self) -> bool:
        """Whether it was killed by the kernel, because memory ran out."""
        if self._process.poll() != -signal.SIGKILL:
            return False
        with self._lock:
            if self._is_out_of_memory is None:
                self._is_out_of_memory = oom_kills().explains(self._kills_before)
            return self._is_out_of_memory

    @property
    def has_crashed(self) -> bool:
        """Whether it has ended by an error or a fault of its own."""
        code = self._process.poll()
        return code is not None and (code > 0 or -code in _FAULTS)

    def send_bytes(self, body: bytes) -> None:
        """Sends it a message, which /proc does not show to anyone.

        It waits while the process does not read. A message to one that has ended or
        was hung up on is lost.
        """
        with suppress(OSError):  # its end is noticed like any other
            self.channel.sendall(frame(body))

    def receive_bytes(
        self,
        timeout_seconds: float | None = None,
        closing: threading.Event | None = None,
    ) -> bytes | None:
        """Waits for its next message; for one thread.

        Args:
            timeout_seconds: How long at most; None waits for the end of the process.
            closing: Ends the wait once it is set.

        Returns:
            The message; None if none came in time, or the process has ended. One that
            sends what is no message is killed.
        """
        try:
            return self._receive_bytes(timeout_seconds, closing)
        except FrameError as error:
            _logger.error("%s is killed: %s", self.name, error)  # noqa: TRY400
            self.kill()
            return None

    def _receive_bytes(
        self, timeout_seconds: float | None, closing: threading.Event | None
    ) -> bytes | None:
        wait = math.inf if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + wait
        if self.channel.fileno() < 0:
            return None
        poller = select.poll()
        poller.register(self.channel, select.POLLIN)
        while (body := self._incoming.next()) is None:
            left = deadline - time.monotonic()
            # Whoever it has started may hold its end of the channel.
            has_ended = self.exit_code is not None
            if poller.poll(round(1000 * max(0.0, min(left, _LOOK_SECONDS)))):
                if not self._receive_part():
                    with suppress(subprocess.TimeoutExpired):
                        self._process.wait(_LAST_WAIT_SECONDS)
                    return None
            elif left <= 0 or has_ended or (closing is not None and closing.is_set()):
                return None
        return body

    def _receive_part(self) -> bool:
        """Receives what is there; False if that is the end."""
        try:
            part = self.channel.recv(_CHUNK_BYTES)
        except OSError:  # it was reset, or closed here
            return False
        self._incoming.feed(part)
        return bool(part)

    def copy_channel(self) -> socket.socket:
        """Returns a copy of this end of the channel, which `close` leaves open."""
        with no_forks():
            copy = self.channel.dup()
            keep_from_forked_children(copy)
        return copy

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it still runs."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the process without a chance to clean up."""
        self._process.kill()

    def hang_up(self) -> None:
        """Shuts the channel, on which the process ends; from any thread."""
        with suppress(OSError):  # it is shut already
            self.channel.shutdown(socket.SHUT_RDWR)

    def close(self, grace_seconds: float) -> None:
        """Waits for the end, and kills the process if it takes longer; callable twice.

        One that the kernel does not end is given up after some more seconds: that
        happens while a device or a network file system does not answer.
        """
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._end_by_force()
        if self._log is not None:
            self._log.close(_LAST_LINES_SECONDS)
        self.channel.close()

    def _end_by_force(self) -> None:
        self._process.kill()
        try:
            self._process.wait(_KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            _logger.error(  # noqa: TRY400 - nothing to trace
                "%s was killed and has not ended in %g s: process %d is given up",
                self.name,
                _KILLED_SECONDS,
                self.pid,
            )


def describe_exit(code: int, *, is_out_of_memory: bool = False) -> str:
    """Describes an exit code of `subprocess`, where a signal's number is negative.

    Args:
        code: The exit code.
        is_out_of_memory: Whether the kernel has killed it for lack of memory.
    """
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"  # real-time signals have no names
    why = ": memory ran out" if is_out_of_memory else ""
    return f"its process was killed by {name}{why}"
