"""Predicts the latencies at the present load, and compares with what came."""

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics.saturation.capacity import MOST_ERROR, Estimate

EVERY_SECONDS = 0.1
"""Predictions are this far apart, on the engine's clock."""
_MOST = 1200
"""Predictions that are remembered: requests that waited longer are not compared."""
MEMORY_SECONDS = 60.0
"""Time constant, in busy seconds."""


@dataclass(slots=True)
class _Score:
    """Decaying sums of what came, and of by how much the prediction was off."""

    actual: float = 0.0
    off: float = 0.0
    excess: float = 0.0
    count: float = 0.0

    def add(self, predicted: float, actual: float, raw: float, count: float) -> None:
        self.actual += actual * count
        self.off += abs(predicted - actual) * count
        self.excess += (actual - raw) * count
        self.count += count

    def age(self, kept: float) -> None:
        self.actual *= kept
        self.off *= kept
        self.excess *= kept
        self.count *= kept

    @property
    def error(self) -> float | None:
        if self.actual <= 0:
            return None
        return min(self.off / self.actual, MOST_ERROR)


@dataclass(slots=True)
class Forecast:
    """The predictions of one engine; times are the engine's, in ns.

    What the front end takes is in no step: the mean difference to what clients saw is
    added to predicted times to first tokens.
    """

    _made: deque[tuple[int, float, float | None]] = field(
        default_factory=lambda: deque(maxlen=_MOST)
    )
    _ttft: _Score = field(default_factory=_Score)
    _inter_token: _Score = field(default_factory=_Score)

    def predict(self, at: int, ttft: float, inter_token: float | None) -> None:
        """Remembers what the steps let one expect of a request that comes now."""
        self._made.append((at, ttft, inter_token))

    def compare(self, at: int, iteration: IterationStats) -> None:
        """Compares what came with what had been predicted."""
        if not self._made:
            return
        inter_token = self._made[-1][2]
        if inter_token is not None:
            for seconds, count in iteration.inter_token_seconds:
                self._inter_token.add(inter_token, seconds, inter_token, count)
        for first in iteration.first_tokens:
            arrived = at - round(first.seconds * NANOSECONDS)
            place = bisect_right(self._made, arrived, key=_time) - 1
            if place >= 0:
                raw = self._made[place][1]
                self._ttft.add(self._with_excess(raw), first.seconds, raw, 1)

    def age(self, seconds: float) -> None:
        """Forgets by `seconds` of busy time."""
        kept = math.exp(-seconds / MEMORY_SECONDS)
        self._ttft.age(kept)
        self._inter_token.age(kept)

    def ttft(self, raw: float) -> Estimate:
        """Returns the time to first token that clients will see."""
        return Estimate(self._with_excess(raw), self._ttft.error)

    def inter_token(self, seconds: float) -> Estimate:
        """Returns the time between two tokens."""
        return Estimate(seconds, self._inter_token.error)

    def _with_excess(self, raw: float) -> float:
        score = self._ttft
        excess = score.excess / score.count if score.count > 0 else 0.0
        return raw + max(0.0, excess)


def _time(made: tuple[int, float, float | None]) -> int:
    return made[0]
