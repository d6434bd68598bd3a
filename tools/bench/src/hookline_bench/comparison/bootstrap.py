"""Confidence intervals of differences, by drawing requests anew from both runs."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Statistic = Callable[[Matrix], Matrix]
"""Returns a number for each row."""

MOST_VALUES_AT_ONCE = 4_000_000
"""Maximum number of values in memory; many requests are drawn in several rounds."""


def mean(rows: Matrix) -> Matrix:
    """Returns the mean of each row."""
    return np.asarray(rows.mean(axis=1))


def percentile(percentage: float) -> Statistic:
    """Returns a statistic: the percentile of each row, linearly interpolated."""

    def of_rows(rows: Matrix) -> Matrix:
        return np.asarray(np.percentile(rows, percentage, axis=1))

    return of_rows


def intervals(
    first: Sequence[float],
    second: Sequence[float],
    statistics: Sequence[Statistic],
    *,
    confidence: float,
    resamples: int,
    source: np.random.Generator,
) -> list[tuple[float, float]]:
    """Returns the interval of second − first for each statistic.

    Each run's requests are drawn with replacement, as many as it has; the interval
    holds the middle part, as large as the confidence, of the differences found.
    """
    before, after = (
        _resampled(np.asarray(values), statistics, resamples, source)
        for values in (first, second)
    )
    tail = (1 - confidence) / 2
    found = np.quantile(after - before, [tail, 1 - tail], axis=1)
    return [(float(low), float(high)) for low, high in found.T]


def _resampled(
    values: Matrix,
    statistics: Sequence[Statistic],
    resamples: int,
    source: np.random.Generator,
) -> Matrix:
    """Returns a row for each statistic, a column for each resample."""
    at_once = max(1, MOST_VALUES_AT_ONCE // len(values))
    rounds = []
    for begin in range(0, resamples, at_once):
        shape = (min(at_once, resamples - begin), len(values))
        drawn = values[source.integers(0, len(values), shape)]
        rounds.append(np.stack([statistic(drawn) for statistic in statistics]))
    return np.concatenate(rounds, axis=1)
