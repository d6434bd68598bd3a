"""Sums over the last so many seconds."""

from collections import deque

from hookline.clock import NANOSECONDS

_SLICES = 20


class RateWindow:
    """Adds numbers up and forgets them slice by slice; bounded whatever comes.

    Its times are of one monotonic clock, in nanoseconds.
    """

    def __init__(self, seconds: float) -> None:
        self._width = round(seconds * NANOSECONDS)
        self._slice = max(1, self._width // _SLICES)
        self._slices: deque[tuple[int, float]] = deque()
        self._total = 0.0
        self._began: int | None = None

    def add(self, at: int, amount: float) -> None:
        """Adds an amount that came at `at`; times may not go back."""
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
        """What came in the window that ends at `at`."""
        self._forget(at)
        return self._total if self._slices else 0.0

    def rate(self, at: int) -> float:
        """Per second, over the window or since the first amount, if that is less."""
        if self._began is None:
            return 0.0
        # A second at least: the first amount says nothing of how often more will come.
        lived = max(NANOSECONDS, min(self._width, at - self._began))
        return self.total(at) * NANOSECONDS / lived

    def _forget(self, at: int) -> None:
        oldest = at - self._width
        while self._slices and self._slices[0][0] + self._slice <= oldest:
            self._total -= self._slices.popleft()[1]
        if not self._slices:
            self._total = 0.0
