"""Copies to and from host memory that are planned and not done yet."""

from collections import deque
from typing import NamedTuple

_MOST_STEPS = 64
"""Steps remembered; plans whose orders were lost are forgotten after as many more."""


class PlannedCopies(NamedTuple):
    """The copies of one step.

    Attributes:
        storing: Stores into host memory: one, or none.
        loading: Loads from it.
        storing_blocks: Number of blocks to store.
        loading_blocks: Number of blocks to load.
    """

    storing: int = 0
    loading: int = 0
    storing_blocks: int = 0
    loading_blocks: int = 0


class StepsAhead:
    """The copies of steps that the worker's side has not reported as done."""

    def __init__(self) -> None:
        self._planned: deque[tuple[int, PlannedCopies]] = deque(maxlen=_MOST_STEPS)
        self._last = 0

    def plan(self, copies: PlannedCopies) -> int:
        """Notes a step's copies; returns its number, from 1."""
        self._last += 1
        self._planned.append((self._last, copies))
        return self._last

    def done(self, number: int) -> None:
        """Forgets a step that was done, and any before it, which cannot follow."""
        while self._planned and self._planned[0][0] <= number:
            self._planned.popleft()

    def total(self) -> PlannedCopies:
        """Returns the copies of all steps together."""
        copies = [copies for _, copies in self._planned]
        return PlannedCopies(*map(sum, zip(PlannedCopies(), *copies, strict=True)))
