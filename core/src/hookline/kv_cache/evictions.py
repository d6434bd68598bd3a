"""Counts the evictions of a block pool, and times the allocations that cause them."""

from hookline.clock import Clock, SystemClock
from hookline.stats.block_eviction import EvictionWork


class Evictions:
    """The evictions of one block pool.

    An allocation that evicts nothing reads no clock, any other reads it twice.

    Attributes:
        total: Number of blocks evicted so far.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.total = 0
        self._clock = clock or SystemClock()
        self._since: int | None = None
        self._told = self._nanoseconds = 0

    def count(self) -> None:
        """Counts a block that is about to be evicted by an allocation."""
        self.total += 1
        if self._since is None:
            self._since = self._clock.now()

    def end(self) -> None:
        """Ends an allocation."""
        if self._since is not None:
            self._nanoseconds += self._clock.now() - self._since
            self._since = None

    def take_work(self) -> EvictionWork:
        """Returns what evictions took since the last call."""
        work = EvictionWork(self.total - self._told, self._nanoseconds)
        self._told, self._nanoseconds = self.total, 0
        return work
