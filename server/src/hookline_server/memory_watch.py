"""Reads once in a while how much main memory is left."""

from hookline_host.memory import read_memory
from hookline_host.oom_kills import oom_kills
from hookline_metrics.front_end_parts import MemoryStats

SECONDS = 5.0
"""Time between two readings, each of which takes a millisecond at most."""


class MemoryWatch:
    """The memory of this process's control group.

    `look` belongs to the watching thread.

    Attributes:
        stats: The latest reading.
    """

    def __init__(self) -> None:
        self.stats = MemoryStats()
        self._kills_before: int | None = None
        self._waited = SECONDS

    def look(self, seconds: float) -> None:
        """Reads the memory if the last reading is old.

        Args:
            seconds: Time since the last look.
        """
        self._waited += seconds
        if self._waited < SECONDS:
            return
        self._waited = 0.0
        kills, memory = oom_kills().count(), read_memory()
        if self._kills_before is None:
            self._kills_before = kills
        self.stats = MemoryStats(
            headroom_bytes=None if memory is None else memory.available,
            used_bytes=None if memory is None else memory.used,
            kills=kills - self._kills_before,
        )
