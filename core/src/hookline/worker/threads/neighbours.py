"""Estimates how many cores other processes want, and what that leaves for threads."""

import math

_CONTENDED = 0.05
"""Share of time without a core from which threads compete with others."""
_SMOOTHING = 0.5


class Neighbours:
    """The number of cores that other processes want, smoothed over several looks.

    Attributes:
        wanted: Cores that they want.
    """

    def __init__(self) -> None:
        self.wanted = 0.0

    def update(
        self, *, cores: int, busy: float, own: float, running: float, preempted: float
    ) -> None:
        """Takes in a look at the machine; all but the first are in cores.

        Args:
            cores: Number of cores that this process may use.
            busy: How many of them were busy.
            own: How many of them this process used.
            running: How many the threads that compute used.
            preempted: How many more these threads could have used.
        """
        wanted = max(0.0, busy - own)
        if preempted > _CONTENDED * (running + preempted):
            # The system shares cores evenly, so each thread that wants one gets
            # cores ÷ (threads of ours + threads of others).
            asked = running + preempted
            wanted = max(wanted, cores * asked / max(running, 0.01) - asked)
        self.wanted += _SMOOTHING * (min(wanted, 4.0 * cores) - self.wanted)

    def leave(self, cores: int, most: int) -> float:
        """Returns how many cores the threads of a step should use, up to `most`.

        That is an even share. While it lets every neighbour have a core of its own,
        keeping to it means that no thread is ever preempted in the middle of its work;
        with more neighbours than that, all threads compete with them.
        """
        others = self.wanted
        if others + most <= cores:
            return most
        share = cores * most / (most + others)
        is_enough = max(1, math.floor(share)) + round(others) <= cores
        return min(most, share) if is_enough else most
