"""How long something took, without what the machine itself stalled.

Tests share their machine with each other and with strangers. A bound on the time that
something takes holds for its own time: without what a process that only sleeps
overslept meanwhile (`oversleeper`), or without what the threads waited for a processor,
whichever is longer.
"""

import atexit
import mmap
import os
import sys
import time
from collections.abc import Mapping
from functools import cache, cached_property
from subprocess import DEVNULL, Popen  # also while a test replaces subprocess.Popen
from typing import NamedTuple

from hookline_testing import oversleeper
from hookline_testing.processor_wait import thread_wait_seconds


class Took(NamedTuple):
    """A measured time.

    Attributes:
        seconds: By the clock on the wall; for lower bounds.
        own_seconds: Without what the machine stalled; for upper bounds.
    """

    seconds: float
    own_seconds: float


class Stopwatch:
    """Measures from its construction on."""

    def __init__(self, *pids: int) -> None:
        """Begins to measure.

        Args:
            pids: Processes, besides this one, whose work is measured.
        """
        self._canary = _canary()
        self._stalled = self._canary.stalled_seconds()
        self._waited = {pid: thread_wait_seconds(pid) for pid in (os.getpid(), *pids)}
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """The time so far by the clock on the wall."""
        return time.monotonic() - self._began

    @property
    def own_seconds(self) -> float:
        """The time so far without what the machine stalled."""
        return self.took().own_seconds

    def took(self) -> Took:
        """Returns the time so far."""
        seconds = self.seconds
        stalled = self._canary.stalled_seconds() - self._stalled
        waited = sum(_longest_wait(pid, then) for pid, then in self._waited.items())
        return Took(seconds, max(0.0, seconds - max(stalled, waited)))


class Deadline:
    """The end of a test's patience, which the machine's stalls put off."""

    def __init__(self, seconds: float, *pids: int) -> None:
        """Begins to wait, for the own time of these processes, too."""
        self._pids = pids
        self._seconds = seconds
        self._looks = 0

    @property
    def is_ahead(self) -> bool:
        """Whether there is time left.

        The time begins with the second look: most of what is awaited is there at the
        first one, and a stopwatch reads a file of each thread.
        """
        self._looks += 1
        return self._looks == 1 or self._is_within

    @property
    def _is_within(self) -> bool:
        stopwatch = self._stopwatch
        return stopwatch.seconds < self._seconds or (
            stopwatch.own_seconds < self._seconds
        )

    @cached_property
    def _stopwatch(self) -> Stopwatch:
        return Stopwatch(*self._pids)


class _Canary:
    """The process that only sleeps, one for all stopwatches of a process."""

    def __init__(self) -> None:
        size, descriptor = oversleeper.RECORD.size, os.memfd_create("stalls")
        os.truncate(descriptor, size)
        self._memory = mmap.mmap(descriptor, size)
        self._process = Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", oversleeper.__file__, str(descriptor)],
            stdin=DEVNULL,
            pass_fds=[descriptor],
        )
        os.close(descriptor)
        atexit.register(self._end)
        while not self._read()[1]:
            time.sleep(0.001)

    def stalled_seconds(self) -> float:
        """Returns for how long the machine has stalled so far, also just now."""
        assert self._process.poll() is None, "nothing measures the machine's stalls"
        while (read := self._read()) != self._read():
            pass
        overslept, woke = read
        late = time.monotonic() - woke - oversleeper.SLEEP_SECONDS
        return overslept + (late if late > oversleeper.TOLERATED_SECONDS else 0.0)

    def _read(self) -> tuple[float, float]:
        overslept, woke = oversleeper.RECORD.unpack_from(self._memory)
        return overslept, woke

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


@cache
def _canary() -> _Canary:
    return _Canary()


def _longest_wait(pid: int, then: Mapping[str, float]) -> float:
    """Returns how long the thread of a process waited that has waited longest."""
    now = thread_wait_seconds(pid)
    waits = (seconds - then.get(thread, 0.0) for thread, seconds in now.items())
    return max(waits, default=0.0)
