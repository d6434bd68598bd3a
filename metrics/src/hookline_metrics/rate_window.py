"""Sums over a sliding time window."""

from collections import deque

from hookline.clock import NANOSECONDS

_SLICES = 20


class RateWindow:
    """A sliding sum that expires slice by slice, in bounded memory.

    All times are nanoseconds of one monotonic clock.
    """

    def __init__(self, seconds: float) -> None:
        self._width = round(seconds * NANOSECONDS)
        self._slice = max(1, self._width // _SLICES)
        self._slices: deque[tuple[int, float]] = deque()
        self._total = 0.0
        self._began: int | None = None

    def add(self, at: int, amount: float) -> None:
        """Adds an amount at time `at`; times must not decrease."""
        self._forget(at)
        if self._began is None:
            self._began = at
        start = at - at % self._slice
        if self._slices and self._slices[-1][0] == start:
            self._slices[-1] = (start, self._slices[-1][1] + amount)
        else:
            self._slices.append((start, amount))
        self._total += amount

    def total(self, at: int) -> float:
        """Returns the sum over the window that ends at `at`."""
        self._forget(at)
        return self._total if self._slices else 0.0

    def rate(self, at: int) -> float:
        """Returns the rate per second over the window, or since the first amount."""
        if self._began is None:
            return 0.0
        # At least one second: a single amount is no basis for a rate.
        lived = max(NANOSECONDS, min(self._width, at - self._began))
        return self.total(at) * NANOSECONDS / lived

    def _forget(self, at: int) -> None:
        oldest = at - self._width
        while self._slices and self._slices[0][0] + self._slice <= oldest:
            self._total -= self._slices.popleft()[1]
        if not self._slices:
            self._total = 0.0
