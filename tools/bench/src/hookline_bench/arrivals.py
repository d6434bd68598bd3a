"""Arrival times of a benchmark's requests, in seconds from its start."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError
from hookline_bench.values import rate


class RampUp(StrEnum):
    """Growth of the rate from the first request to the last."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """An arrival process; rates are in requests per second."""

    request_rate: float = option(
        "Requests per second; inf sends all at once.",
        default=math.inf,
        metavar="RPS",
        above=0,
        infinite=True,
        read=rate,
    )
    burstiness: float = option(
        "Shape of the gamma distribution of the gaps: 1 is a Poisson process, less "
        "is burstier, more is more regular.",
        default=1.0,
        metavar="SHAPE",
        above=0,
    )
    ramp_up_strategy: RampUp | None = option(
        "Change the rate from the first request to the last.", default=None
    )
    ramp_up_start_rps: float | None = option(
        "Rate of the first request.", default=None, metavar="RPS", above=0
    )
    ramp_up_end_rps: float | None = option(
        "Rate of the last request.", default=None, metavar="RPS", above=0
    )

    def __post_init__(self) -> None:
        check_options(self)
        ends = (self.ramp_up_start_rps, self.ramp_up_end_rps)
        if self.ramp_up_strategy is not None:
            self._check_ramp(ends)
        elif ends != (None, None):
            raise ConfigError("ramp-up-strategy", "is required by the two rates")

    def _check_ramp(self, ends: tuple[float | None, float | None]) -> None:
        if self.request_rate != math.inf:
            raise ConfigError("request-rate", "cannot be combined with a ramp-up")
        names = ("ramp-up-start-rps", "ramp-up-end-rps")
        for name, end in zip(names, ends, strict=True):
            if end is None:
                raise ConfigError(name, "is required by ramp-up-strategy")

    @property
    def is_at_once(self) -> bool:
        """Whether nothing delays a request."""
        return self.ramp_up_strategy is None and self.request_rate == math.inf

    def times(self, count: int, source: np.random.Generator) -> list[float]:
        """Returns the arrival time of each request, ascending.

        Without a ramp-up the times are scaled so that the last request is due after
        `count` ÷ `request_rate`, so every run has exactly the requested rate.
        """
        if self.is_at_once:
            return [0.0] * count
        rates = np.asarray(self.rates(count))
        gaps = source.gamma(self.burstiness, 1 / (rates * self.burstiness))
        due = np.cumsum(gaps)
        if self.ramp_up_strategy is None and due[-1] > 0:
            due *= count / self.request_rate / due[-1]
        return [float(each) for each in due]

    def rates(self, count: int) -> Sequence[float]:
        """Returns the rate at which each request is sent."""
        first, last = self.ramp_up_start_rps, self.ramp_up_end_rps
        if self.ramp_up_strategy is None or first is None or last is None:
            return [self.request_rate] * count
        shares = [number / max(count - 1, 1) for number in range(count)]
        if self.ramp_up_strategy is RampUp.LINEAR:
            return [first + (last - first) * share for share in shares]
        return [first * (last / first) ** share for share in shares]
