"""Starts servers as forks of a process that has done their imports.

Most of a start's processor time goes into imports. A fork differs from a new process in
the modules that are there already, and in that all servers of a test process hash with
one seed; a server has a child more, which forks what it starts.
"""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count

from hookline_testing.fork_orders import PADDING, order_of_this_process
from hookline_testing.forks import OF_TESTS, SERVER, ForkedProcess, Forks

_EARLY = ("HOOKLINE_", "NUMBA_", "OMP_", "PYTHON")
"""How variables begin that are read by what has been imported before the fork."""


class ForkServer:
    """The process that forks for this one, until this one ends.

    Attributes:
        forks: Asks it.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Starts it; its imports go on while the first process is awaited.

        Args:
            environment: The variables of what it forks.
        """
        control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-m", "hookline_testing.fork_server"]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [*command, str(theirs.fileno()), PADDING],
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # it may have no threads
        )
        theirs.close()
        self._control = control
        self.forks = Forks(control, environment)
        atexit.register(self._close)

    def start(
        self, argv: Sequence[str], stderr: int, variables: Mapping[str, str]
    ) -> ForkedProcess:
        """Forks `python -m hookline_server` with arguments and more variables."""
        reading, writing = os.pipe()
        order = order_of_this_process(
            SERVER, argv, {**self.forks.variables, **variables}, (1, 2)
        )
        try:
            pid = self.forks.fork(order, (writing, stderr))
        finally:
            os.close(writing)
        assert pid is not None, "the process that forks servers has ended"
        return ForkedProcess(pid, os.fdopen(reading))

    def _close(self) -> None:
        self._control.close()
        self._process.wait()


def forks_from_the_second_on() -> Callable[[], Forks | None]:
    """Returns what forks what test processes start themselves, for `fork_supervised`.

    The first is a new process: to import everything pays for several only.
    """
    variables, counted = {**os.environ}, count()

    @cache
    def forks() -> Forks:
        return ForkServer(variables).forks

    return lambda: forks() if next(counted) else None


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
