"""Where the time comes from: the machine, or a test that moves it by hand."""

import time
from typing import Protocol

NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    """A monotonic clock; two readings of the same clock may be subtracted."""

    def now(self) -> int:
        """Monotonic nanoseconds."""
        ...

    def wall(self) -> int:
        """Nanoseconds since the epoch, to pair with `now` when spans are placed."""
        ...

    def sleep(self, seconds: float) -> None:
        """Lets so much time go by."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        return time.monotonic_ns()

    def wall(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class VirtualClock:
    """A clock that stands still until it is moved: hours pass in no time."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += round(seconds * NANOSECONDS)
