"""What an engine can serve, and how fast, by the fitted costs of its steps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline.request import Slo
from hookline_metrics.saturation.costs import StepCosts
from hookline_metrics.saturation.demand import MeanRequest

CAPACITY = "requests_per_second"
STABLE = "stable_requests"
WITHIN_SLO = "slo_requests"
TTFT = "time_to_first_token"
INTER_TOKEN = "inter_token"  # noqa: S105 - not a password
ESTIMATES = (CAPACITY, STABLE, WITHIN_SLO, TTFT, INTER_TOKEN)
MOST_ERROR = 10.0
"""The largest error that is told: what lies so far off is not known."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its standard error relative to it; None without a basis."""

    value: float
    error: float | None


@dataclass(frozen=True, slots=True)
class BusySteps:
    """The steps of an engine whose requests are all like the mean one.

    Attributes:
        costs: What steps cost.
        request: The mean request.
        places: Maximum running requests, by the limit and by the KV cache.
        is_by_cache: Whether the KV cache is what limits them.
        budget: Maximum tokens of a step.
    """

    costs: StepCosts
    request: MeanRequest
    places: float
    is_by_cache: bool
    budget: int

    @property
    def passes(self) -> float:
        """Steps that a request takes part in."""
        return max(1.0, self.request.passes)

    @property
    def tokens(self) -> float:
        """Prompt tokens to compute for a request, once or again."""
        return self.request.prompt + self.request.recomputed

    @property
    def stable(self) -> float:
        """The largest number of requests that all take part in each step."""
        per_step = (self.tokens + self.request.decodes) / self.passes
        return max(1.0, min(self.places, self.budget / max(per_step, 1.0)))

    def seconds(self, running: float) -> float:
        """Returns the duration of a step of so many requests."""
        return self.costs.cost.seconds(*self._work(running))

    def error(self, running: float) -> float:
        """Returns its standard error relative to it."""
        return min(self.costs.error(*self._work(running)), MOST_ERROR)

    def prefill_seconds(self, others: float) -> float:
        """Returns the time of a prompt's steps, beside so many other requests."""
        steps = max(1.0, self.passes - self.request.decodes)
        own = self.costs.cost.prefill * self.tokens
        return own + steps * self.seconds(others)

    def capacity(self) -> Estimate:
        """Returns the requests per second that the engine can serve."""
        running = self.stable
        rate = running / (self.passes * self.seconds(running))
        error = math.hypot(self.error(running), self._of_mean)
        return Estimate(rate, min(error, MOST_ERROR))

    def stability(self) -> Estimate:
        """Returns the concurrency above which requests wait for places or tokens."""
        is_exact = self.stable == self.places and not self.is_by_cache
        return Estimate(self.stable, 0.0 if is_exact else self._of_mean)

    def within(self, slo: Slo) -> Estimate | None:
        """Returns the largest concurrency at which requests meet their objectives.

        None without objectives. 0 if a request alone does not meet them.
        """
        longest = self._longest_step(slo)
        if longest is None:
            return None
        alone, each = self.seconds(0.0), self.seconds(1.0) - self.seconds(0.0)
        if longest < alone + each:
            return Estimate(0.0, self.error(1.0))
        if longest >= self.seconds(self.stable) or each <= 0:
            return self.stability()
        running = (longest - alone) / each
        # What the step's duration is off by, in requests.
        off = self.error(running) * longest / (longest - alone)
        return Estimate(running, min(math.hypot(off, self._of_mean), MOST_ERROR))

    def _longest_step(self, slo: Slo) -> float | None:
        """Returns the longest duration of a step with which all objectives are met."""
        request, bounds = self.request, []
        own = self.costs.cost.prefill * self.tokens
        if slo.ttft is not None:
            bounds.append((slo.ttft - own) / max(1.0, self.passes - request.decodes))
        if slo.tpot is not None and request.decodes > 0:
            bounds.append(slo.tpot * request.yields)
        if slo.e2e is not None:
            bounds.append(slo.e2e / self.passes)
        return min(bounds, default=None)

    def _work(self, running: float) -> tuple[float, float]:
        """Returns the decoding requests and the prompt tokens of a step."""
        share = running / self.passes
        return self.request.decodes * share, self.tokens * share

    @property
    def _of_mean(self) -> float:
        """The error of a mean over so few requests, as if lengths were exponential."""
        return min(1 / math.sqrt(max(self.request.counted, 0.01)), MOST_ERROR)


@dataclass(frozen=True, slots=True)
class CapacityReading:
    """Estimates by their names, for requests like the recent ones.

    Attributes:
        estimates: By names in `ESTIMATES`; those without a basis are left out, all of
            them until the costs are fitted.
    """

    estimates: Mapping[str, Estimate] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """Returns an estimate; None without a basis."""
        found = self.estimates.get(name)
        return None if found is None else found.value

    @property
    def errors(self) -> Mapping[str, float]:
        """The errors that are known."""
        return {
            name: each.error
            for name, each in self.estimates.items()
            if each.error is not None
        }
