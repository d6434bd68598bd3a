"""Limits how often one place in the code may log."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

BURST = 20
"""Number of lines that one place may log in each period."""

PERIOD_SECONDS = 10.0
MAX_PLACES = 1000

_Place = tuple[str, int]


@dataclass(slots=True)
class _Period:
    """What a place has logged since a time, in seconds of the clock."""

    began: float
    lines: int = 0
    left_out: int = 0


class RateLimit(logging.Filter):
    """Lets through `BURST` lines of each place per period.

    The first line of the next period has the number of lines left out. A place is a
    line of source code. Loggers in `unlimited` have no limit.

    Attributes:
        left_out: Number of lines left out so far.
    """

    def __init__(
        self,
        unlimited: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._unlimited = unlimited
        self._clock = clock
        self._periods: dict[_Place, _Period] = {}
        self.left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written; for one thread at a time."""
        if record.name in self._unlimited:
            return True
        period = self._period(record)
        period.lines += 1
        if period.lines > BURST:
            period.left_out += 1
            self.left_out += 1
            return False
        return True

    def _period(self, record: logging.LogRecord) -> _Period:
        place, now = (record.pathname, record.lineno), self._clock()
        period = self._periods.get(place)
        if period is not None and now - period.began < PERIOD_SECONDS:
            return period
        if period is not None and period.left_out:
            record.left_out = period.left_out
        if len(self._periods) >= MAX_PLACES:
            self._periods.clear()
        self._periods[place] = _Period(now)
        return self._periods[place]
