"""Starts servers as forks of a process that has done their imports.

Most of a start's processor time goes into imports. A fork differs from a new process in
`/proc/…/cmdline`, in the modules that are there already, and in that all servers of a
test process hash with one seed.
"""

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from hookline_testing.fork_server import MOST_BYTES, Order

OF_TESTS = {
    "PYTEST_CURRENT_TEST",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_DEFAULT_FP_FUSION",
}
"""Variables of pytest, and those that torch sets in the test's process on import."""
_EARLY = ("HOOKLINE_", "NUMBA_", "OMP_", "PYTHON")
"""How variables begin that are read by what has been imported before the fork."""
_PR_SET_CHILD_SUBREAPER = 36


class ForkedProcess:
    """A child of this process that something else has forked; as `subprocess.Popen`.

    Attributes:
        pid: Its id.
        returncode: Its exit code, negative for a signal; None while it runs.
        stdout: What it says.
    """

    def __init__(self, pid: int, stdout: IO[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = stdout

    def poll(self) -> int | None:
        """Returns its exit code; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; returns its exit code.

        Raises:
            subprocess.TimeoutExpired: It has not come in time.
        """
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("hookline serve", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stdout.close()
        self.wait()


class ForkServer:
    """The process that forks servers, until this one ends."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Starts it; its imports go on while the first server is awaited.

        Args:
            environment: The variables of the servers.
        """
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "hookline_testing.fork_server"]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [*command, str(theirs.fileno())],
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=environment,
        )
        theirs.close()
        atexit.register(self._close)

    def start(
        self, argv: Sequence[str], stderr: int, variables: Mapping[str, str]
    ) -> ForkedProcess:
        """Forks `python -m hookline_server` with arguments and more variables."""
        reading, writing = os.pipe()
        order = json.dumps(Order([*argv], str(Path.cwd()), {**variables})).encode()
        try:
            with _adopting():
                socket.send_fds(self._control, [order], [writing, stderr])
                answer = self._control.recv(MOST_BYTES)
        finally:
            os.close(writing)
        assert answer, "the process that forks servers has ended"
        return ForkedProcess(int(answer), os.fdopen(reading))

    def _close(self) -> None:
        self._control.close()
        self._process.wait()


@contextmanager
def _adopting() -> Iterator[None]:
    """Makes this process the parent of descendants whose parents end meanwhile."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def may_be_late(
    environment: Mapping[str, str], other: Mapping[str, str]
) -> dict[str, str] | None:
    """Returns the variables that a fork with the others needs, but for tests' own.

    Returns:
        None if the fork would come too late for one that differs.
    """
    names = environment.keys() | other.keys()
    differ = {each for each in names if environment.get(each) != other.get(each)}
    differ -= OF_TESTS
    if not differ <= environment.keys() or any(
        each.startswith(_EARLY) and each != "PYTHONPATH" for each in differ
    ):
        return None
    return {each: environment[each] for each in differ}
