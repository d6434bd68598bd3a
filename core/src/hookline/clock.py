"""Clocks: the machine's, and a manual one for tests and simulations."""

import time
from typing import Protocol

NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    """A monotonic clock; only readings of the same clock may be subtracted."""

    def now(self) -> int:
        """Returns monotonic nanoseconds."""

    def wall(self) -> int:
        """Returns nanoseconds since the epoch, to convert `now` to wall-clock time."""

    def sleep(self, seconds: float) -> None:
        """Waits for this long."""


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.monotonic_ns)
    wall = staticmethod(time.time_ns)

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class VirtualClock:
    """A clock that only advances on request, for tests and simulations."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += round(seconds * NANOSECONDS)
