"""Runs a command beside neighbours that want the same cores.

usage: python benchmarks/contention.py --neighbours NAME -- COMMAND …

quiet      nothing
one        one process that never rests
two        two of them
bursts     every second, for its first half, four processes at a time that each compute
           for 20 ms and end; nothing in its second half
quota-150  no neighbour, but a control group (cgroup) that gives the command the time of
           1.5 cores, in periods of 100 ms
quota-50   the same with half a core

Neighbours run on any core that this process may use, and in its scheduling group (they
do not begin a session of their own, which Linux may give its own share): each of them
is one runnable thread more among the command's. They end with this process, however it
ends. compare.py uses the same neighbours, and switches them beside a running engine.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum

from cpu_quota import CpuGroup, QuotaUnavailable, cpu_group

# A neighbour looks whether its owner lives; so it ends with it, even by SIGKILL.
_BUSY = """
import os, sys
os.sched_setaffinity(0, eval(sys.argv[2]))
while os.getppid() == int(sys.argv[1]):
    for _ in range(200_000):
        pass
"""
_SHORT = """
import time
end = time.perf_counter() + 0.02
while time.perf_counter() < end:
    pass
"""
_BURSTS = f"""
import os, subprocess, sys, time
os.sched_setaffinity(0, eval(sys.argv[2]))
command = [sys.executable, "-I", "-S", "-c", {_SHORT!r}]
while os.getppid() == int(sys.argv[1]):
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        for each in [subprocess.Popen(command) for _ in range(4)]:
            each.wait()
    time.sleep(0.5)
"""


class Neighbours(Enum):
    """What runs beside a measurement, or limits it."""

    QUIET = "quiet"
    ONE = "one"
    TWO = "two"
    BURSTS = "bursts"
    QUOTA_150 = "quota-150"
    QUOTA_50 = "quota-50"

    @property
    def scripts(self) -> Sequence[str]:
        """The Python source of each neighbour process."""
        return _SCRIPTS.get(self, ())

    @property
    def quota(self) -> float | None:
        """The number of cores whose time may be used; None means no limit."""
        return _QUOTAS.get(self)

    def share(self, cores: int) -> float:
        """Returns the share of the machine's time that a quota leaves."""
        return 1.0 if self.quota is None else min(1.0, self.quota / cores)


_SCRIPTS = {
    Neighbours.ONE: (_BUSY,),
    Neighbours.TWO: (_BUSY, _BUSY),
    Neighbours.BURSTS: (_BURSTS,),
}
_QUOTAS = {Neighbours.QUOTA_150: 1.5, Neighbours.QUOTA_50: 0.5}


class Contention:
    """Owner of the neighbours: at most one kind runs at a time.

    Create it before anything binds this process to certain cores, since neighbours use
    those that it may use then.
    """

    def __init__(self, group: CpuGroup | None = None) -> None:
        """Remembers the cores of this process.

        Args:
            group: The group of the measured processes; needed for quotas.
        """
        self._group = group
        self.cores = frozenset(os.sched_getaffinity(0))

    @contextmanager
    def beside(self, neighbours: Neighbours) -> Iterator[None]:
        """Starts the neighbours, or sets the quota, and ends it again.

        Raises:
            QuotaUnavailable: The quota cannot be set.
        """
        with ExitStack() as stack:
            if neighbours.quota is not None:
                if self._group is None:
                    raise QuotaUnavailable("the measured process has no control group")
                stack.enter_context(self._group.limit(neighbours.quota))
            for script in neighbours.scripts:
                stack.enter_context(self._running(script))
            yield

    @contextmanager
    def _running(self, script: str) -> Iterator[None]:
        cores = str(set(self.cores))
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-I", "-S", "-c", script, str(os.getpid()), cores],
            env={},  # no library of the measured side is loaded into its neighbours
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def run_beside(neighbours: Neighbours, command: Sequence[str]) -> int:
    """Runs a command beside neighbours and returns its exit status.

    Raises:
        QuotaUnavailable: A quota is asked for and cannot be set.
    """
    with ExitStack() as stack:
        needs_group = neighbours.quota is not None
        group = stack.enter_context(cpu_group()) if needs_group else None
        stack.enter_context(Contention(group).beside(neighbours))
        return subprocess.call(command)  # noqa: S603 - the user's own command


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [each.value for each in Neighbours]
    parser.add_argument("--neighbours", choices=names, required=True)
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args(argv)
    try:
        return run_beside(Neighbours(options.neighbours), options.command)
    except QuotaUnavailable as error:
        parser.error(f"--neighbours {options.neighbours}: {error}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
