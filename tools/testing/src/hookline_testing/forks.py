"""Asks a process that has done imports for forks of itself, which are children here."""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Self

from hookline_testing.fork_orders import Order

SERVER = "hookline_server"
"""The module of a server."""
NAME = "forks"
"""Name of the child of a server that forks what it starts."""
MOST_BYTES = 1 << 17
MOST_DESCRIPTORS = 200
OF_TESTS = {
    "PYTEST_CURRENT_TEST",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_DEFAULT_FP_FUSION",
}
"""Variables of pytest, and those that torch sets in the test's process on import."""
_PR_SET_CHILD_SUBREAPER = 36


class ForkedProcess:
    """A child of this process that something else has forked; as `subprocess.Popen`.

    Attributes:
        pid: Its id.
        returncode: Its exit code, negative for a signal; None while it runs.
        stdout: What it says; None if that goes elsewhere.
    """

    def __init__(self, pid: int, stdout: IO[str] | None = None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = stdout
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        """Returns its exit code; None while it runs."""
        with self._reaping:
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
        with self._reaping:
            descriptor = (
                None if self.returncode is not None else os.pidfd_open(self.pid)
            )
        if descriptor is not None:
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
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
        if self.stdout is not None:
            self.stdout.close()
        self.wait()


class Forks:
    """What forks for this process.

    Attributes:
        variables: The environment that was there when it imported.
    """

    def __init__(self, control: socket.socket, variables: Mapping[str, str]) -> None:
        """Takes over the socket to it."""
        self._control = control
        self.variables = variables
        self._asking = threading.Lock()

    def fork(self, order: Order, descriptors: Sequence[int]) -> int | None:
        """Returns the id of a new child; None if what forks has ended."""
        data = json.dumps(order).encode()
        with self._asking, _adopting():
            try:
                socket.send_fds(self._control, [data], descriptors)
                answer = self._control.recv(MOST_BYTES)
            except ConnectionError:
                return None
        return int(answer) if answer else None


@contextmanager
def _adopting() -> Iterator[None]:
    """Makes this process the parent of descendants whose parents end meanwhile."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
