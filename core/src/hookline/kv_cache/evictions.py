"""Counts the evictions of a block pool, and times the allocations that cause them."""

from dataclasses import dataclass

from hookline.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class EvictionWork:
    """What evictions from the prefix cache took.

    Attributes:
        blocks: Number of evicted blocks.
        nanoseconds: Time of the allocations that evicted them, each from its first
            eviction on.
    """

    blocks: int
    nanoseconds: int


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
