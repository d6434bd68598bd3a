"""What changed between two results, and whether it is more than noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hookline_bench.comparison.bootstrap import (
    Statistic,
    intervals,
    mean,
    percentile,
)
from hookline_bench.comparison.sample import Result, Sample
from hookline_bench.percentiles import percentage_word

LEAST_VALUES = 10
"""Minimum number of values; an interval of fewer would be too narrow."""


class Verdict(StrEnum):
    """The meaning of a change."""

    WORSE = "worse"
    BETTER = "better"
    SMALL = "too small to matter"
    NOISE = "within noise"
    TOO_FEW = "too few values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one statistic of one metric.

    Attributes:
        first: Its value in the first result.
        second: Its value in the second.
        interval: Bounds of second − first; None with too few values.
    """

    metric: str
    phase: str
    statistic: str
    unit: str
    first: float
    second: float
    interval: tuple[float, float] | None
    verdict: Verdict

    @property
    def difference(self) -> float:
        """The change, in the metric's unit."""
        return self.second - self.first

    @property
    def percent(self) -> float | None:
        """The change in percent of the first value; None if that is 0."""
        return self.difference / self.first * 100 if self.first else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The rules of a comparison.

    Attributes:
        confidence: Probability that no interval of an unchanged system excludes 0.
        min_change: Percentage of the first value below which a change does not matter.
        percentages: Percentiles to compare beside the mean.
        resamples: How often the requests are drawn anew.
        seed: Seed of the draws.
    """

    confidence: float = 0.95
    min_change: float = 1.0
    percentages: Sequence[float] = (90.0,)
    resamples: int = 10_000
    seed: int = 0

    def changes(self, first: Result, second: Result) -> list[Change]:
        """Returns the changes of all metrics that both results have."""
        later = {sample.metric: sample for sample in second.samples}
        pairs = [
            (sample, later[sample.metric])
            for sample in first.samples
            if sample.metric in later and sample.values and later[sample.metric].values
        ]
        # Each of n tests is n times stricter, so that all together hold the confidence.
        tests = sum(len(self._statistics(sample)) for sample, _ in pairs)
        confidence = 1 - (1 - self.confidence) / max(tests, 1)
        return [
            change for pair in pairs for change in self._compared(*pair, confidence)
        ]

    def _statistics(self, sample: Sample) -> Mapping[str, Statistic]:
        if sample.is_share:
            return {"mean": mean}
        tails = {f"P{percentage_word(each)}": each for each in self.percentages}
        return {"mean": mean} | {name: percentile(at) for name, at in tails.items()}

    def _compared(
        self, first: Sample, second: Sample, confidence: float
    ) -> Iterator[Change]:
        statistics = self._statistics(first)
        values = [np.asarray([each.values]) for each in (first, second)]
        bounds: Sequence[tuple[float, float] | None] = [None] * len(statistics)
        if min(len(first.values), len(second.values)) >= LEAST_VALUES:
            bounds = intervals(
                first.values,
                second.values,
                list(statistics.values()),
                confidence=confidence,
                resamples=self.resamples,
                source=np.random.default_rng(self.seed),
            )
        for (name, statistic), interval in zip(statistics.items(), bounds, strict=True):
            before, after = (float(statistic(each)[0]) for each in values)
            yield Change(
                metric=first.metric,
                phase=first.phase,
                statistic=name,
                unit=first.unit,
                first=before,
                second=after,
                interval=interval,
                verdict=self._verdict(before, after, interval, first.least),
            )

    def _verdict(
        self,
        first: float,
        second: float,
        interval: tuple[float, float] | None,
        least: float,
    ) -> Verdict:
        if interval is None:
            return Verdict.TOO_FEW
        low, high = interval
        if low <= 0 <= high:
            return Verdict.NOISE
        if abs(second - first) < max(least, abs(first) * self.min_change / 100):
            return Verdict.SMALL
        return Verdict.WORSE if low > 0 else Verdict.BETTER
