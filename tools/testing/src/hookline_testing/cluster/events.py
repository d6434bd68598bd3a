"""Events of a simulation, in the order of their virtual times."""

import heapq
from collections.abc import Callable

from hookline.clock import NANOSECONDS, VirtualClock


class Events:
    """Calls to make at virtual times; those of one time in the order of their making.

    Attributes:
        clock: Has the time of the call that is being made.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, time: int, call: Callable[[], None]) -> None:
        """Makes a call at a time, in ns, which is not in the past."""
        self._made += 1
        heapq.heappush(self._due, (time, self._made, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Makes a call so many seconds from now."""
        self.at(self.clock.now() + round(seconds * NANOSECONDS), call)

    def run_next(self) -> bool:
        """Makes the next call; False if none is left."""
        if not self._due:
            return False
        time, _, call = heapq.heappop(self._due)
        advance(self.clock, time)
        call()
        return True


def advance(clock: VirtualClock, time: int) -> None:
    """Lets a clock go forward to a time, in ns; one that is ahead stays as it is."""
    clock.sleep(max(0, time - clock.now()) / NANOSECONDS)
