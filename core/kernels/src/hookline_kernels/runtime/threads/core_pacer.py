"""Keeps the use of cores at a target by changing the number of threads per step."""

import math

_MOST_CREDIT_NS = 10_000_000
"""Core time saved up, or owed, that counts; a tenth of a quota's usual period."""


class CorePacer:
    """Chooses the number of threads of each step, such that they add up to a target.

    Of 1.5 cores, every second step of equal length gets two threads, the others one.
    """

    def __init__(self) -> None:
        self._credit = 0.0

    def threads(self, target: float, passed_ns: int, used_ns: int) -> int:
        """Returns the number of threads of the next step, at least 1.

        Args:
            target: Cores to use.
            passed_ns: Time since the last call.
            used_ns: Time that this process was on cores since then, all threads.
        """
        credit = self._credit + target * passed_ns - used_ns
        bound = _MOST_CREDIT_NS * max(1.0, target)
        self._credit = min(bound, max(-bound, credit))
        wanted = math.ceil(target) if self._credit > 0 else math.floor(target)
        return max(1, wanted)
