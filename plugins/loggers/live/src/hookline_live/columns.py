"""Adds up what happens by columns of time."""

import math
from collections.abc import Callable

from hookline_live.frame import (
    BIN_0_NS,
    BINS_PER_DECADE,
    COLUMN_MS,
    NUM_BINS,
    Column,
)

COLUMN_NS = COLUMN_MS * 1_000_000
MOST_TENANTS = 7
OTHERS = "\0others"
"""Key of all tenants beyond the first ones; no tenant has this name."""


def bin_of(nanoseconds: float) -> int:
    """Returns the bin of a duration."""
    if nanoseconds <= BIN_0_NS:
        return 0
    found = int(BINS_PER_DECADE * math.log10(nanoseconds / BIN_0_NS))
    return min(found, NUM_BINS - 1)


class Columns:
    """The columns since they were last taken.

    Attributes:
        now: The column of this moment.
    """

    def __init__(self, wall_of: Callable[[int], int]) -> None:
        """Begins none yet.

        Args:
            wall_of: Returns the wall clock, in ns, of a moment of the engine's clock.
        """
        self._wall_of = wall_of
        self._columns: list[Column] = []
        self.now = Column(0)
        self._end = 0

    def is_over(self, at: int) -> bool:
        """Whether another column has begun."""
        return at >= self._end

    def go_to(self, at: int) -> None:
        """Goes to the column of a moment."""
        wall = self._wall_of(at)
        number = wall // COLUMN_NS
        if number != self.now.number:
            self.now = Column(number)
            self._columns.append(self.now)
        self._end = at + COLUMN_NS - wall % COLUMN_NS

    def took(self, kind: str, nanoseconds: float, times: int = 1) -> None:
        """Counts a duration."""
        bins = self.now.durations.setdefault(kind, {})
        found = bin_of(nanoseconds)
        bins[found] = bins.get(found, 0) + times

    def generated(self, tenant: str, tokens: int) -> None:
        """Counts tokens of a tenant."""
        tenants = self.now.tenants
        if tenant not in tenants and len(tenants) >= MOST_TENANTS:
            tenant = OTHERS
        tenants[tenant] = tenants.get(tenant, 0) + tokens

    def pop(self) -> list[Column]:
        """Returns the columns and forgets them; the last one goes on empty."""
        taken, self._columns = self._columns, []
        self.now, self._end = Column(0), 0
        return taken
