"""How often, and how soon, a process may be replaced."""

import time
from collections import deque
from collections.abc import Callable

_NANOSECONDS = 1_000_000_000

PERIOD_SECONDS = 3600
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0


class RestartBudget:
    """Allows a number of restarts per hour, each after a longer pause than the last.

    Args:
        limit: Number of restarts per hour.
        now: Returns monotonic nanoseconds.
    """

    def __init__(self, limit: int, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._limit = limit
        self._now = now
        self._taken: deque[int] = deque()

    def consume(self) -> float | None:
        """Takes a restart.

        Returns:
            The pause before it in seconds, or None if the limit is reached.
        """
        now = self._now()
        while self._taken and now - self._taken[0] > PERIOD_SECONDS * _NANOSECONDS:
            self._taken.popleft()
        if len(self._taken) >= self._limit:
            return None
        delay = FIRST_DELAY_SECONDS * 2.0 ** len(self._taken)
        self._taken.append(now)
        return min(delay, LONGEST_DELAY_SECONDS)
