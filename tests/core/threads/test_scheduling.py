"""What the system's scheduler did, read from files like those of Linux."""

import os
import threading
from pathlib import Path

from hookline_kernels.runtime.threads.scheduling import (
    ThreadTimes,
    busy_ns,
    thread_times,
)

TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
STAT = """\
cpu  900 0 90 900 0 0 0 9 0 0
cpu0 500 1 40 800 30 2 3 4 500 0
cpu1 400 0 50 100 0 0 0 5 0 0
intr 1
"""


def test_times_of_threads_are_added(tmp_path: Path) -> None:
    """Threads that ended, or that Linux does not count, add nothing."""
    for number, text in ((7, "100 20 3\n"), (8, "1000 300 4\n"), (9, "")):
        folder = tmp_path / "self" / "task" / str(number)
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)

    assert thread_times((7, 8, 9, 10), tmp_path) == ThreadTimes(1100, 320)


def test_busy_time_is_of_the_given_cores(tmp_path: Path) -> None:
    """Waiting for disks is idle, stolen time is busy, guests' time counts once."""
    (tmp_path / "stat").write_text(STAT)

    assert busy_ns({0}, tmp_path) == 550 * TICK
    assert busy_ns({0, 1}, tmp_path) == 1005 * TICK


def test_a_busy_thread_has_run() -> None:
    """The system's own files have the expected form."""
    own = threading.get_native_id()
    before = thread_times([own])
    sum(range(200_000))
    os.sched_yield()  # which brings the thread's totals up to date

    if before.running:  # not every kernel counts
        assert thread_times([own]).running > before.running
    assert busy_ns(os.sched_getaffinity(0)) > 0
