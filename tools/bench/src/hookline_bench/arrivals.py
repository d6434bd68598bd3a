"""When the requests of a benchmark are sent, in seconds from its start."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hookline.exceptions import ConfigError


class RampUp(StrEnum):
    """How the rate grows from the first request to the last."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """An arrival process.

    Attributes:
        request_rate: Requests a second; infinite sends all at once.
        burstiness: Shape of the gamma distribution of the gaps: 1 makes a Poisson
            process, less makes bursts, more makes it regular.
        ramp_up_strategy: Where given, the rate goes from `ramp_up_start_rps` to
            `ramp_up_end_rps`, and there is no `request_rate`.
    """

    request_rate: float = math.inf
    burstiness: float = 1.0
    ramp_up_strategy: RampUp | None = None
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None

    def __post_init__(self) -> None:
        if not self.request_rate > 0:
            raise ConfigError("request-rate", "must be above 0")
        if not 0 < self.burstiness < math.inf:
            raise ConfigError("burstiness", "must be above 0")
        ends = (self.ramp_up_start_rps, self.ramp_up_end_rps)
        if self.ramp_up_strategy is None:
            if ends != (None, None):
                raise ConfigError("ramp-up-strategy", "is what the two rates need")
        else:
            self._check_ramp(ends)

    def _check_ramp(self, ends: tuple[float | None, float | None]) -> None:
        if self.request_rate != math.inf:
            raise ConfigError("request-rate", "is not for use with a ramp")
        names = ("ramp-up-start-rps", "ramp-up-end-rps")
        for name, rate in zip(names, ends, strict=True):
            if rate is None or not rate > 0:
                raise ConfigError(name, "must be given, and above 0, for a ramp")

    def times(self, count: int, source: np.random.Generator) -> list[float]:
        """When each of the requests is due, ascending.

        Without a ramp the times are scaled so that the last is due after exactly
        `count` ÷ `request_rate`: the rate is then the one asked for, in every run.
        """
        if self.ramp_up_strategy is None and self.request_rate == math.inf:
            return [0.0] * count
        rates = np.asarray(self.rates(count))
        gaps = source.gamma(self.burstiness, 1 / (rates * self.burstiness))
        due = np.cumsum(gaps)
        if self.ramp_up_strategy is None and due[-1] > 0:
            due *= count / self.request_rate / due[-1]
        return [float(each) for each in due]

    def rates(self, count: int) -> Sequence[float]:
        """The rate at which each of the requests is sent."""
        first, last = self.ramp_up_start_rps, self.ramp_up_end_rps
        if self.ramp_up_strategy is None or first is None or last is None:
            return [self.request_rate] * count
        shares = [number / max(count - 1, 1) for number in range(count)]
        if self.ramp_up_strategy is RampUp.LINEAR:
            return [first + (last - first) * share for share in shares]
        return [first * (last / first) ** share for share in shares]
