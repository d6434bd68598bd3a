"""A process of Hookline's own code that this process starts, watches and ends."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from hookline_processes.log_forwarding import RecordReceiver

_LAST_LINES_SECONDS = 1.0
"""Time for the last log lines of a process that has ended."""
_KILLED_SECONDS = 5.0
"""Time for the kernel to end a process that was killed."""
_FAULTS = (
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
    *(signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP),
)
"""Signals by which a process ends because of what it does itself."""
_logger = logging.getLogger(__name__)


class OwnedProcess:
    """Runs a module as a process whose log becomes part of this process's log.

    Its last arguments are this process's id, and the descriptor and the level of its
    log. It ends when its standard input closes.
    """

    def __init__(
        self,
        module: str,
        arguments: Iterable[object],
        *,
        name: str,
        pass_fds: Sequence[int] = (),
        is_apart: bool = False,
    ) -> None:
        """Starts the process.

        Args:
            module: Name of the module.
            arguments: Its first arguments.
            name: Name of the process in log records, such as `engine 0`.
            pass_fds: Descriptors that it inherits under the same numbers.
            is_apart: Whether signals of the terminal do not reach it.

        Raises:
            OSError: It cannot be started; nothing of it is left.
        """
        self._name = name
        log, log_end = os.pipe()
        level = logging.getLogger("hookline").getEffectiveLevel()
        given = (*arguments, os.getpid(), log_end, level)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - no input of anyone else
                [sys.executable, "-m", module, *map(str, given)],
                stdin=subprocess.PIPE,
                pass_fds=(*pass_fds, log_end),
                bufsize=0,
                process_group=0 if is_apart else None,
            )
        except BaseException:
            os.close(log)
            raise
        finally:
            os.close(log_end)
        self._log = self._receive_log(log)

    def _receive_log(self, log: int) -> RecordReceiver:
        """Takes over the pipe of its log; ends the process if no thread can do so."""
        pipe = os.fdopen(log, "rb")
        try:
            return RecordReceiver(pipe, self._name)
        except RuntimeError as error:
            pipe.close()
            self._process.kill()
            self.ask_to_end()
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
        return None if code is None else describe_exit(code)

    @property
    def has_crashed(self) -> bool:
        """Whether it has ended by an error or a fault of its own."""
        code = self._process.poll()
        return code is not None and (code > 0 or -code in _FAULTS)

    @property
    def pipe(self) -> int | None:
        """Descriptor of this end of its standard input; None once it is closed."""
        pipe = self._process.stdin
        return None if pipe is None or pipe.closed else pipe.fileno()

    def tell(self, secret: bytes) -> None:
        """Writes to its standard input, which /proc does not show to anyone."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:  # it was asked to end
            return
        with suppress(BrokenPipeError):  # its end is noticed like any other
            self._process.stdin.write(secret)

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it still runs."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the process without a chance to clean up."""
        self._process.kill()

    def ask_to_end(self) -> None:
        """Closes the standard input of the process, on which it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self, timeout_seconds: float) -> None:
        """Waits for the end; kills the process if it takes longer.

        One that the kernel does not end is given up after some more seconds.
        """
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            end_by_force(self._process, self._name)
        self._log.close(_LAST_LINES_SECONDS)


def end_by_force(process: subprocess.Popen[bytes], name: str) -> None:
    """Kills a process and reaps it, unless the kernel keeps it for seconds.

    It does so while a device or a network file system does not answer.
    """
    process.kill()
    try:
        process.wait(_KILLED_SECONDS)
    except subprocess.TimeoutExpired:
        _logger.error(  # noqa: TRY400 - nothing to trace
            "%s was killed and has not ended in %g s: process %d is given up",
            name,
            _KILLED_SECONDS,
            process.pid,
        )


def describe_exit(code: int) -> str:
    """Describes an exit code of `subprocess`, where a signal's number is negative."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"  # real-time signals have no names
    if code == -signal.SIGKILL:
        return f"its process was killed by {name}, probably because memory ran out"
    return f"its process was killed by {name}"
