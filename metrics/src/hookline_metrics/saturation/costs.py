"""A linear cost model of steps, fitted online to their durations."""

import math
from dataclasses import dataclass
from typing import NamedTuple

CLIPPED_AT = 4.0
"""The fit clips a step's duration at this multiple of its expected duration."""
WARM_STEPS = 16
"""Durations are not clipped before this number of steps."""
SHAPE_SECONDS = 60.0
"""Time constant, in busy seconds, of the ratio between costs."""
SPEED_SECONDS = 10.0
"""Time constant, in busy seconds, of the machine's speed, which neighbours and heat
change quickly."""
_RIDGE = 1e-3
"""Fraction of the squared mean; less variance is not enough to estimate a slope."""


class StepCost(NamedTuple):
    """Seconds of a step ≈ fixed + decode · decoding requests + prefill · prompt tokens.

    Every part is 0 or above, and all of them are 0 before the first step.
    """

    fixed: float
    decode: float
    prefill: float

    def seconds(self, decodes: float, tokens: float) -> float:
        return self.fixed + self.decode * decodes + self.prefill * tokens


NO_COST = StepCost(0.0, 0.0, 0.0)


@dataclass(slots=True)
class StepCosts:
    """Decaying normal equations of the line, rescaled to the most recent steps.

    If all batches are alike, fixed and proportional cost cannot be separated; the ridge
    then treats the whole cost as fixed, which is how memory-bound decoding behaves.

    Attributes:
        cost: The most recent fit.
    """

    cost: StepCost = NO_COST
    _steps: float = 0.0
    _decodes: float = 0.0
    _tokens: float = 0.0
    _clipped: float = 0.0
    _decodes_decodes: float = 0.0
    _decodes_tokens: float = 0.0
    _tokens_tokens: float = 0.0
    _decodes_clipped: float = 0.0
    _tokens_clipped: float = 0.0
    _recent_steps: float = 0.0
    _recent_decodes: float = 0.0
    _recent_tokens: float = 0.0
    _recent_seconds: float = 0.0

    def add(self, decodes: int, tokens: int, seconds: float) -> None:
        """Adds a step."""
        expected = self.cost.seconds(decodes, tokens)
        is_known = expected > 0 and self._steps > WARM_STEPS
        clipped = min(seconds, CLIPPED_AT * expected) if is_known else seconds
        self._steps += 1
        self._decodes += decodes
        self._tokens += tokens
        self._clipped += clipped
        self._decodes_decodes += decodes * decodes
        self._decodes_tokens += decodes * tokens
        self._tokens_tokens += tokens * tokens
        self._decodes_clipped += decodes * clipped
        self._tokens_clipped += tokens * clipped
        self._recent_steps += 1
        self._recent_decodes += decodes
        self._recent_tokens += tokens
        self._recent_seconds += seconds

    def age(self, seconds: float) -> None:
        """Decays the sums by `seconds` of busy time."""
        kept = math.exp(-seconds / SHAPE_SECONDS)
        self._steps *= kept
        self._decodes *= kept
        self._tokens *= kept
        self._clipped *= kept
        self._decodes_decodes *= kept
        self._decodes_tokens *= kept
        self._tokens_tokens *= kept
        self._decodes_clipped *= kept
        self._tokens_clipped *= kept
        kept = math.exp(-seconds / SPEED_SECONDS)
        self._recent_steps *= kept
        self._recent_decodes *= kept
        self._recent_tokens *= kept
        self._recent_seconds *= kept

    def fit(self) -> None:
        """Updates `cost`."""
        if self._steps <= 0 or self._recent_seconds <= 0:
            return
        steps, decodes, tokens = self._steps, self._decodes, self._tokens
        decode, prefill = _slopes(
            self._decodes_decodes - (1 - _RIDGE) * decodes * decodes / steps,
            self._decodes_tokens - decodes * tokens / steps,
            self._tokens_tokens - (1 - _RIDGE) * tokens * tokens / steps,
            self._decodes_clipped - decodes * self._clipped / steps,
            self._tokens_clipped - tokens * self._clipped / steps,
        )
        fixed = max(0.0, (self._clipped - decode * decodes - prefill * tokens) / steps)
        # Nonlinearity, clipped steps and slopes clamped to 0 must not lose time: the
        # whole line is scaled to the total duration of the last steps.
        explained = (
            fixed * self._recent_steps
            + decode * self._recent_decodes
            + prefill * self._recent_tokens
        )
        if explained > 0:
            scale = self._recent_seconds / explained
            self.cost = StepCost(fixed * scale, decode * scale, prefill * scale)


def _slopes(
    xx: float, xy: float, yy: float, xt: float, yt: float
) -> tuple[float, float]:
    """Returns non-negative slopes of t over x and y, from centred sums."""
    determinant = xx * yy - xy * xy
    if determinant > 1e-12 * xx * yy:
        x = (xt * yy - yt * xy) / determinant
        y = (yt * xx - xt * xy) / determinant
        if x >= 0 and y >= 0:
            return x, y
    alone_x = max(0.0, xt / xx) if xx > 0 else 0.0
    alone_y = max(0.0, yt / yy) if yy > 0 else 0.0
    # Only one of them: the one that explains more.
    return (alone_x, 0.0) if alone_x * xt > alone_y * yt else (0.0, alone_y)
