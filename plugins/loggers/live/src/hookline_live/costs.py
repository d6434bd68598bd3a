"""Shares the time of steps out, by the costs that `hookline why` has fitted as well."""

from collections import deque

from hookline_live.frame import Column
from hookline_recording.costs import FittedCosts, StepSize

MOST_STEPS = 4096
"""Steps that costs are fitted to; the latest."""
_GROWTH = 4
"""Costs are fitted again after a quarter as many steps as they were fitted to."""


class Costs:
    """What the last steps cost, and the columns that have yet to be told."""

    def __init__(self) -> None:
        self._measured: deque[tuple[StepSize, int]] = deque(maxlen=MOST_STEPS)
        self._waiting: list[tuple[Column, StepSize, int]] = []
        self._fitted = FittedCosts(())
        self._num_new = 0

    def computed(self, column: Column, size: StepSize, nanoseconds: int) -> None:
        """Takes a step that was computed."""
        self._measured.append((size, nanoseconds))
        self._waiting.append((column, size, nanoseconds))
        self._num_new += 1

    def share_out(self) -> None:
        """Adds the time of steps since the last time to their columns."""
        if self._num_new * _GROWTH > len(self._measured):
            self._fitted, self._num_new = FittedCosts(self._measured), 0
        for column, size, nanoseconds in self._waiting:
            parts = self._fitted.parts(size, nanoseconds)
            prompts, decodes, slower = (round(each / 1000) for each in parts[1:])
            column.prompts_us += prompts
            column.decodes_us += decodes
            column.slower_us += slower
            column.fixed_us += nanoseconds // 1000 - prompts - decodes - slower
        self._waiting.clear()
