"""What the steps of a recording cost, by one fit over all of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hookline.clock import NANOSECONDS
from hookline_metrics.saturation.costs import CLIPPED_AT, StepCost, StepCosts

NOISE = 1.25
"""A step that takes up to so many times as long as expected is an ordinary one."""
_FIT_EVERY = 64
_PASSES = 2


class StepSize(NamedTuple):
    """What a step computed: requests that decode, and tokens of prompts."""

    decodes: int
    prefill_tokens: int


class StepParts(NamedTuple):
    """What the time of a step went to, in ns.

    Attributes:
        fixed: What any step costs.
        prompts: Tokens of prompts.
        decodes: Requests that decode.
        slower: What is beyond what its work explains.
    """

    fixed: float
    prompts: float
    decodes: float
    slower: float


class FittedCosts:
    """The cost model of the saturation signal, fitted to a whole recording.

    Attributes:
        cost: Seconds of a step in parts.
        is_fitted: Whether there were steps enough; without, time is shared by tokens.
    """

    def __init__(self, steps: Iterable[tuple[StepSize, int]]) -> None:
        """Fits it to the sizes of steps and their durations in ns."""
        measured = list(steps)
        fitted = _fit(measured, None)
        # Again, without what takes far longer than expected: a stall must not make all
        # other steps seem dear.
        for _ in range(_PASSES):
            if fitted.is_fitted:
                fitted = _fit(measured, fitted.cost)
        self.cost: StepCost = fitted.cost
        self.is_fitted = fitted.is_fitted

    def expected_ns(self, size: StepSize) -> float:
        """Returns what a step of that size takes."""
        return self.cost.seconds(*size) * NANOSECONDS

    def divided(self, expected: float, duration: float) -> tuple[float, float]:
        """Divides a step's duration into what its work explains, and the rest.

        Args:
            expected: What was expected of it, ns.
            duration: What it took, ns.

        Returns:
            By what `expected` is to be multiplied, and how many ns are unexplained. An
            ordinary step's are 0: its work took a little more or less than others'.
        """
        if duration > NOISE * expected:
            return 1.0, duration - expected
        return (duration / expected if expected > 0 else 1.0), 0.0

    def parts(self, size: StepSize, duration: int) -> StepParts:
        """Shares the duration of a step out; without a fit, by tokens."""
        if not self.is_fitted:
            each = duration / (sum(size) or 1)
            prompts, decodes = each * size.prefill_tokens, each * size.decodes
            return StepParts(0.0 if sum(size) else duration, prompts, decodes, 0.0)
        scale, slower = self.divided(self.expected_ns(size), duration)
        fixed, decode, prefill = (each * scale * NANOSECONDS for each in self.cost)
        return StepParts(
            fixed, prefill * size.prefill_tokens, decode * size.decodes, slower
        )


def _fit(
    measured: Sequence[tuple[StepSize, int]], expected: StepCost | None
) -> StepCosts:
    costs = StepCosts()
    for number, (size, duration) in enumerate(measured, 1):
        seconds = duration / NANOSECONDS
        if expected is not None and seconds > CLIPPED_AT * expected.seconds(*size):
            continue
        costs.add(*size, seconds)
        if number % _FIT_EVERY == 0:
            costs.fit()
    costs.fit()
    return costs


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Divides a number by weights into integers that add up to it exactly."""
    whole = sum(weights)
    if whole <= 0:
        return [total, *[0] * (len(weights) - 1)] if weights else []
    ideal = [total * weight / whole for weight in weights]
    parts = [int(each) for each in ideal]
    missing = total - sum(parts)
    order = sorted(range(len(parts)), key=lambda at: parts[at] - ideal[at])
    for at in range(abs(missing)):
        parts[order[at % len(order)]] += 1 if missing > 0 else -1
    return parts
