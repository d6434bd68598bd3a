"""Reads from Linux's /proc how long threads and cores ran and waited."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hookline_host.files import read_text

_NANOSECONDS_A_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Totals of some threads, in ns.

    Attributes:
        running: Time on a core.
        preempted: Time in which they could run but had no core.
    """

    running: int = 0
    preempted: int = 0


def thread_times(native_ids: Iterable[int], proc: Path = Path("/proc")) -> ThreadTimes:
    """Returns the sums over threads of this process; zeros where Linux counts none."""
    running = preempted = 0
    for each in native_ids:
        fields = read_text(proc / "self" / "task" / str(each) / "schedstat").split()
        if len(fields) == 3:
            running += int(fields[0])
            preempted += int(fields[1])
    return ThreadTimes(running, preempted)


def busy_ns(cores: Iterable[int], proc: Path = Path("/proc")) -> int:
    """Returns for how long cores were busy in total, stolen time included, in ns.

    Stolen time is when the hypervisor gave the core to another machine.
    """
    wanted = {f"cpu{each}" for each in cores}
    ticks = 0
    for line in read_text(proc / "stat").splitlines():
        name, *fields = line.split()
        if name in wanted:
            times = [int(each) for each in fields[:_GUEST]]  # guests count as user
            ticks += sum(times) - times[_IDLE] - times[_IOWAIT]
    return ticks * _NANOSECONDS_A_TICK
