"""Means and percentiles of measured values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

QUARTILES_AND_TAILS = (10, 25, 50, 75, 90, 99)
"""Percentiles that `latency` and `startup` report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A sample in a few numbers; all are 0 where it is empty.

    Attributes:
        percentiles: By percentage; between two values they are interpolated.
    """

    mean: float
    median: float
    deviation: float
    percentiles: dict[float, float]


def summarize(values: Sequence[float], percentages: Iterable[float]) -> Summary:
    """The numbers of a sample."""
    sample = np.asarray(values if len(values) else [0.0])
    return Summary(
        mean=float(sample.mean()),
        median=float(np.median(sample)),
        deviation=float(sample.std()),
        percentiles={each: float(np.percentile(sample, each)) for each in percentages},
    )


def percentage_word(percentage: float) -> str:
    """`99` and `99.9`, as they stand in names."""
    return f"{percentage:g}"
