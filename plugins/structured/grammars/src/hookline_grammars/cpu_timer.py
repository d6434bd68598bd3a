"""Measures the processor time of work that nearly always takes little of it."""

import time
from collections.abc import Callable

_QUICK_NS = 1_000_000


class CpuTimer:
    """Processor time of pieces of one thread's work, at the price of the wall clock.

    To ask the kernel for it takes some twenty microseconds on virtual machines, as long
    as filling a mask. A piece that is quick by the wall clock takes no more processor
    time than that; only after other ones is the kernel asked.
    """

    def __init__(
        self,
        wall: Callable[[], int] = time.perf_counter_ns,
        processor: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """Starts; the clocks tell nanoseconds."""
        self._wall, self._processor = wall, processor
        self._marked = processor()

    def mark(self) -> None:
        """Tells that pieces follow: what the thread has done before does not count."""
        self._marked = self._processor()

    def begin(self) -> int:
        """Returns the beginning of a piece."""
        return self._wall()

    def since(self, begun: int) -> int:
        """Returns a piece's processor time, or at most a millisecond more than it."""
        taken = self._wall() - begun
        if taken < _QUICK_NS:
            return taken
        before, self._marked = self._marked, self._processor()
        return min(taken, max(0, self._marked - before))
