"""Estimates how many cores other processes want."""

_CONTENDED = 0.05
"""Share of time without a core from which threads compete with others."""
_SMOOTHING = 0.5
_WORTH_AVOIDING = 0.5
"""Cores."""


class Neighbours:
    """The number of cores that other processes want, smoothed over observations.

    Attributes:
        wanted: Cores that they want.
    """

    def __init__(self) -> None:
        self.wanted = 0.0

    def update(
        self, *, cores: int, busy: float, own: float, running: float, preempted: float
    ) -> None:
        """Updates the estimate by an observation; all but the first are in cores.

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

    def leave_a_core(self, cores: int) -> bool:
        """Returns whether they want at least half a core, but not every core.

        Then threads that stay on cores of their own lose fewer of them.
        """
        return _WORTH_AVOIDING <= self.wanted <= cores - _WORTH_AVOIDING
