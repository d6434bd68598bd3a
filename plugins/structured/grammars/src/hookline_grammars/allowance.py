"""How much processor time following grammars may take."""

import time
from collections.abc import Callable

from hookline.clock import NANOSECONDS

TOKEN_NS = 2_000_000
"""For each token of an output."""
_MOST_NS, _LEAST_NS = NANOSECONDS // 4, NANOSECONDS // 40
"""Beyond that for one output: as a rule, and while the common store is empty."""
_STORE_NS = NANOSECONDS
_REFILL = 0.1
"""Of the time that passes."""


class GrammarAllowance:
    """What the grammars of all outputs of an engine may take beyond their tokens' time.

    Each output may exceed its tokens' time by a quarter of a second. All of them draw
    on one store: once it is empty, outputs may exceed it by a tenth of that only, so
    that many outputs with slow grammars together delay the others no longer than one.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """Starts with a full store; the clock tells nanoseconds."""
        self._clock = clock
        self._left = float(_STORE_NS)
        self._filled_at = clock()

    def draw(self, nanoseconds: int) -> None:
        """Takes from the store."""
        self._fill()
        self._left = max(0.0, self._left - nanoseconds)

    def permits(self, excess_ns: int) -> bool:
        """Returns whether an output may have taken so much beyond its tokens' time."""
        if excess_ns <= _LEAST_NS:
            return True
        self._fill()
        return excess_ns <= _MOST_NS and self._left > 0

    def _fill(self) -> None:
        now = self._clock()
        more = (now - self._filled_at) * _REFILL
        self._left = min(float(_STORE_NS), self._left + more)
        self._filled_at = now
