"""The value of a histogram series in a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline_metrics.accumulators import Exemplar
from hookline_metrics.native_buckets import NativeBuckets


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """The value of one histogram series.

    Attributes:
        bounds: Inclusive upper bounds, ascending, without infinity.
        counts: Observations per bucket, not cumulative; the last is above all bounds.
        sum: Sum of the observed values.
        exemplars: The most recent exemplar by bucket index.
        native: The same observations in exponential buckets; None if they are not
            counted or were not asked for.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    exemplars: Mapping[int, Exemplar] = field(default_factory=dict)
    native: NativeBuckets | None = None

    @property
    def count(self) -> int:
        return sum(self.counts)

    def added(self, other: "HistogramValue") -> "HistogramValue":
        """Returns the observations of both; the other's exemplars are the newer ones.

        Raises:
            ValueError: Their bounds differ.
        """
        if self.bounds != other.bounds:  # engines of different context lengths
            raise ValueError("histograms with different bounds cannot be added up")
        native = self.native
        if native is not None and other.native is not None:
            native = native.added(other.native)
        return HistogramValue(
            self.bounds,
            tuple(map(sum, zip(self.counts, other.counts, strict=True))),
            self.sum + other.sum,
            {**self.exemplars, **other.exemplars},
            native,
        )
