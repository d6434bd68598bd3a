"""Means and percentiles of measured values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

QUARTILES_AND_TAILS = (10, 25, 50, 75, 90, 99)
"""Percentiles that `latency` and `startup` report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a sample; all values are 0 if it is empty.

    Attributes:
        percentiles: Values by percentage, linearly interpolated.
    """

    mean: float
    median: float
    deviation: float
    percentiles: dict[float, float]


def summarize(values: Sequence[float], percentages: Iterable[float]) -> Summary:
    """Summarizes a sample."""
    sample = np.asarray(values if len(values) else [0.0])
    return Summary(
        mean=float(sample.mean()),
        median=float(np.median(sample)),
        deviation=float(sample.std()),
        percentiles={each: float(np.percentile(sample, each)) for each in percentages},
    )


def percentage_word(percentage: float) -> str:
    """Formats a percentage for a name: `99`, `99.9`."""
    return f"{percentage:g}"
