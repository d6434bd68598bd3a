"""Keeps engines in step that share experts, as long as any of them has work.

Each engine counts its steps in memory that all of them see. One that has work begins
its next step, and rings those that have begun fewer. An engine without work that has
begun fewer steps than another computes a dummy step: its experts for the tokens of the
others, and nothing else. So engines compute steps of one number together, nobody
decides for all when to begin and when to stop, and engines sleep while none has work.

| word of an engine | meaning |
|---|---|
| steps | number of steps that it has begun |
| state | it is loading its model, awake, or has nothing left to do before it sleeps |
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

from hookline.stats.step_work import RankUse
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.processes.ring import fence
from hookline_ranks.processes.shared_memory import SharedMemory

_LINE = 8
"""Words of a cache line: each engine has its own."""
_LINE_BYTES = 64
_STEPS, _STATE = 0, 1
_LOOK_SECONDS = 0.005
"""Time between two looks whether others have loaded their models."""


class _State(IntEnum):
    LOADING = 0
    AWAKE = 1
    RESTING = 2


class Lockstep:
    """One engine's side; for the thread of its core.

    Attributes:
        bell: Descriptor that is readable once another engine has begun a step, or
            rests.
    """

    def __init__(self, links: ExpertLinks, assist: Callable[[], RankUse]) -> None:
        """Attaches to the memory.

        Args:
            links: What the engine has inherited.
            assist: Computes a dummy step.
        """
        self._memory = SharedMemory(links.num_engines * _LINE_BYTES, links.steps)
        self._words = self._memory.view.cast("q")
        self._bells, self._index = links.bells, links.index
        self._assist = assist
        self.bell = links.bells[links.index]

    def wait_for_others(self) -> None:
        """Waits until all engines have loaded their models.

        Whoever owns the engines ends them all if one cannot.
        """
        self._tell(_State.AWAKE)
        while _State.LOADING in self._all(_STATE):
            time.sleep(_LOOK_SECONDS)

    def start_step(self) -> None:
        """Begins a step with work; must be followed by its computation."""
        number = self._advance()
        for index, steps in enumerate(self._all(_STEPS)):
            if steps < number:
                os.eventfd_write(self._bells[index], 1)

    def hear(self) -> None:
        """Silences the bell; to be called before looks, so that no ring is missed."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.bell)

    def assist(self) -> RankUse | None:
        """Computes a dummy step if another engine has begun one; else returns None."""
        if not self._is_behind:
            return None
        self._advance()
        return self._assist()

    def rest(self) -> bool:
        """Tells that it begins no step until `rise`; returns whether no engine does.

        It must assist others until then.
        """
        self._tell(_State.RESTING)
        if self._is_behind:
            return False
        return all(state == _State.RESTING for state in self._all(_STATE))

    def rise(self) -> None:
        """Tells that it may begin steps again."""
        self._tell(_State.AWAKE)

    @property
    def _is_behind(self) -> bool:
        """Whether another engine has begun more steps."""
        return max(self._all(_STEPS)) > self._words[self._index * _LINE + _STEPS]

    def _advance(self) -> int:
        at = self._index * _LINE + _STEPS
        self._words[at] = number = self._words[at] + 1
        fence()
        return number

    def _all(self, word: int) -> list[int]:
        fence()
        return self._words[word::_LINE].tolist()

    def _tell(self, state: _State) -> None:
        at = self._index * _LINE + _STATE
        if self._words[at] == state:
            return
        self._words[at] = state
        fence()
        for index, bell in enumerate(self._bells):
            if index != self._index:
                os.eventfd_write(bell, 1)
