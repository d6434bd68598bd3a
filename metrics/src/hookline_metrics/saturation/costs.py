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
_PARAMETERS = 3


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
    _clipped_clipped: float = 0.0
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
        self._clipped_clipped += clipped * clipped
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
        self._clipped_clipped *= kept
        kept = math.exp(-seconds / SPEED_SECONDS)
        self._recent_steps *= kept
        self._recent_decodes *= kept
        self._recent_tokens *= kept
        self._recent_seconds *= kept

    @property
    def is_fitted(self) -> bool:
        """Whether enough recent steps stand behind `cost`."""
        return self._steps > WARM_STEPS and self.cost != NO_COST

    def error(self, decodes: float, tokens: float) -> float:
        """Returns the standard error of a step's expected duration, relative to it.

        It grows with the distance from the steps that were seen. That the line goes on
        straight beyond them is assumed.
        """
        steps = self._steps
        if steps <= 0:
            return math.inf
        xx, xy, yy = self._spread()
        xt, yt = self._trend()
        slope_x, slope_y = _slopes(xx, xy, yy, xt, yt)
        total = self._clipped_clipped - self._clipped * self._clipped / steps
        # Of a line with slopes that were clamped to 0, too.
        rest = total - 2 * (slope_x * xt + slope_y * yt)
        rest += slope_x * slope_x * xx + slope_y * slope_y * yy
        rest += 2 * slope_x * slope_y * xy
        variance = max(0.0, rest) / max(1.0, steps - _PARAMETERS)
        x, y = decodes - self._decodes / steps, tokens - self._tokens / steps
        distance = 1 / steps + _distance(x, y, xx, xy, yy)
        if math.isinf(distance):
            return math.inf
        expected = self._clipped / steps + slope_x * x + slope_y * y
        return math.sqrt(variance * distance) / expected if expected > 0 else math.inf

    def _spread(self) -> tuple[float, float, float]:
        """Returns the centred squares of both regressors, and their product."""
        steps, decodes, tokens = self._steps, self._decodes, self._tokens
        return (
            self._decodes_decodes - (1 - _RIDGE) * decodes * decodes / steps,
            self._decodes_tokens - decodes * tokens / steps,
            self._tokens_tokens - (1 - _RIDGE) * tokens * tokens / steps,
        )

    def _trend(self) -> tuple[float, float]:
        """Returns the centred products of both regressors with the duration."""
        return (
            self._decodes_clipped - self._decodes * self._clipped / self._steps,
            self._tokens_clipped - self._tokens * self._clipped / self._steps,
        )

    def fit(self) -> None:
        """Updates `cost`."""
        if self._steps <= 0 or self._recent_seconds <= 0:
            return
        steps, decodes, tokens = self._steps, self._decodes, self._tokens
        decode, prefill = _slopes(*self._spread(), *self._trend())
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


def _distance(x: float, y: float, xx: float, xy: float, yy: float) -> float:
    """Returns the squared distance of a centred point in units of the spread."""
    determinant = xx * yy - xy * xy
    if determinant > 1e-12 * xx * yy:
        return (x * x * yy - 2 * x * y * xy + y * y * xx) / determinant
    # One regressor has not been seen, so nothing is known about it.
    pairs = ((x, xx), (y, yy))
    return sum(d * d / spread if spread > 0 else math.inf for d, spread in pairs if d)
