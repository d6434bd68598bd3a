"""Decides how many engines a load needs, from the engines' saturation.

It starts and ends nothing and reads no clock, so that a simulation can run it, too.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import correlation, linear_regression
from typing import NamedTuple

MOST_SATURATION = 2.0
"""What an engine counts at most: how long a backlog is says little about how many
engines the load needs."""


LEAST_LEAD_SECONDS, MOST_LEAD_SECONDS = 10.0, 300.0
"""Bounds of the time for which demand is extrapolated: less has no trend."""


CORRELATION = 0.85
"""Of time and demand, from which on demand counts as growing."""


class ScalingReason(StrEnum):
    """Why a number of engines was chosen.

    The demand is met; it asks for more, now or by the time that an engine has started;
    it has asked for less, and not for more, all through the last `quiet_seconds`; or
    what it asks for is below the minimum or above the maximum.
    """

    STEADY = "steady"
    DEMAND = "demand"
    TREND = "trend"
    QUIET = "quiet"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"


class ScalingDecision(NamedTuple):
    """How many engines there should be, and why."""

    engines: int
    reason: ScalingReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """Limits and pace of scaling.

    Attributes:
        minimum: Least number of engines, at least 1.
        maximum: Greatest number of engines, at least `minimum`.
        target: Saturation of the mean engine above which there should be more.
        hysteresis: Part of `target` that must be free after an engine has gone.
        quiet_seconds: How long the demand must have been low before engines go.
        lead_seconds: Time that an engine takes to start, by which a growing demand is
            extrapolated.
    """

    minimum: int
    maximum: int
    target: float = 0.7
    hysteresis: float = 0.3
    quiet_seconds: float = 180.0
    lead_seconds: float = 30.0


class Scaler:
    """Applies a policy to measurements, which it keeps as long as it needs them."""

    def __init__(self, policy: ScalingPolicy) -> None:
        self._policy = policy
        self._demands: deque[tuple[float, float]] = deque()
        self._grown_at = -math.inf

    def expect_start(self, seconds: float) -> None:
        """Takes the time that engines take to start instead of the policy's."""
        lead = min(max(seconds, LEAST_LEAD_SECONDS), MOST_LEAD_SECONDS)
        self._policy = replace(self._policy, lead_seconds=lead)

    def decide(
        self, at: float, saturations: Sequence[float], engines: int
    ) -> ScalingDecision:
        """Returns how many engines there should be.

        Args:
            at: Time of the measurement in seconds, later than at the call before.
            saturations: `hookline_saturation_ratio` of each engine that serves.
            engines: Number of engines that serve or are being started.
        """
        policy = self._policy
        demand = sum(min(each, MOST_SATURATION) for each in saturations)
        self._keep(at, demand)
        now = _engines(demand, policy.target)
        ahead = _engines(demand + self._growth(), policy.target)
        if (needed := max(now, ahead)) > engines:
            self._grown_at = at
            reason = ScalingReason.DEMAND if now > engines else ScalingReason.TREND
            return self._bounded(needed, engines, reason)
        return self._bounded(self._quiet(at, engines), engines, ScalingReason.QUIET)

    def _keep(self, at: float, demand: float) -> None:
        self._demands.append((at, demand))
        kept = max(self._policy.quiet_seconds, 2 * self._policy.lead_seconds)
        # One that is older than the window shows that the window is full.
        while len(self._demands) > 1 and self._demands[1][0] <= at - kept:
            self._demands.popleft()

    def _growth(self) -> float:
        """Returns by how much demand grows until an engine has started, at least 0.

        By the line through the measurements of twice that time, if they are near to
        it: noise has a slope, too. At most as much as there is.
        """
        lead = self._policy.lead_seconds
        last, demand = self._demands[-1]
        recent = [each for each in self._demands if each[0] >= last - 2 * lead]
        if len(recent) < 3 or last - recent[0][0] < lead:
            return 0.0
        times, demands = zip(*recent, strict=True)
        if min(demands) == max(demands) or correlation(times, demands) < CORRELATION:
            return 0.0
        slope, _ = linear_regression(times, demands)
        return min(slope * lead, demand)

    def _quiet(self, at: float, engines: int) -> int:
        """Returns what was enough all through the last while; else all engines."""
        policy = self._policy
        # A trend may end before there was the demand that it promised.
        quiet_since = max(self._grown_at, self._demands[0][0])
        if at - quiet_since < policy.quiet_seconds:
            return engines
        begin = at - policy.quiet_seconds
        most = max(demand for time, demand in self._demands if time >= begin)
        return min(engines, _engines(most, policy.target * (1 - policy.hysteresis)))

    def _bounded(
        self, wanted: int, engines: int, reason: ScalingReason
    ) -> ScalingDecision:
        if wanted > self._policy.maximum:
            return ScalingDecision(self._policy.maximum, ScalingReason.MAXIMUM)
        if wanted < self._policy.minimum:
            return ScalingDecision(self._policy.minimum, ScalingReason.MINIMUM)
        if wanted == engines:
            return ScalingDecision(engines, ScalingReason.STEADY)
        return ScalingDecision(wanted, reason)


def _engines(demand: float, target: float) -> int:
    """Returns the number of engines whose mean saturation is at most the target."""
    return max(1, math.ceil(demand / target - 1e-9))
