"""Projects the finest buckets of a histogram to those of one of its names."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from hookline_metrics.accumulators import Exemplar, HistogramSeries
from hookline_metrics.histogram_value import HistogramValue
from hookline_metrics.native_buckets import NativeBuckets, NativeScale

Bounds = tuple[float, ...]


class Projection:
    """Converts series to a subset of their bounds and to another unit.

    Both kinds of buckets come from the same counts, so their sums are always equal.
    """

    def __init__(
        self,
        finest: Bounds,
        bounds: Bounds,
        scale: float,
        native: NativeScale | None,
    ) -> None:
        """Compares bounds once for all snapshots.

        Args:
            finest: The series' bounds, which contain all others.
            bounds: The classic buckets' upper bounds, in the name's unit.
            scale: Factor from the series' unit to the name's.
            native: The exponential buckets, if there are any.
        """
        self._finest = finest
        self._bounds = bounds
        self._scale = scale
        self._native = native
        self._starts = [bisect_left(finest, bound / scale) + 1 for bound in bounds]
        # Of the buckets that have had observations, a few of the finest ones.
        self._classic_of: dict[int, int] = {}
        self._native_of: dict[int, int] = {}

    def value(self, series: HistogramSeries, *, with_native: bool) -> HistogramValue:
        """Returns a copy of the series, on request with exponential buckets."""
        return HistogramValue(
            self._bounds,
            self._counts(series.counts),
            series.sum * self._scale,
            self._exemplars(series.exemplars) if series.exemplars else {},
            self._buckets(series.counts) if with_native else None,
        )

    def _counts(self, counts: Mapping[int, int]) -> tuple[int, ...]:
        found = [0] * (len(self._bounds) + 1)
        for finest, count in counts.items():
            found[self._classic(finest)] += count
        return tuple(found)

    def _classic(self, finest: int) -> int:
        known = self._classic_of.get(finest)
        if known is None:
            known = self._classic_of[finest] = bisect_right(self._starts, finest)
        return known

    def _buckets(self, counts: Mapping[int, int]) -> NativeBuckets | None:
        if self._native is None:
            return None
        known, found = self._native_of, defaultdict[int, int](int)
        for finest, count in counts.items():
            if finest not in known:
                is_last = finest == len(self._finest)
                upper = float("inf") if is_last else self._finest[finest]
                known[finest] = self._native.position(upper)
            found[known[finest]] += count
        return self._native.buckets(found)

    def _exemplars(self, exemplars: Mapping[int, Exemplar]) -> Mapping[int, Exemplar]:
        """Keeps the newest exemplar of each bucket."""
        found: dict[int, Exemplar] = {}
        for finest, exemplar in sorted(exemplars.items()):
            bucket = self._classic(finest)
            known = found.get(bucket)
            if known is None or known.at <= exemplar.at:
                found[bucket] = replace(exemplar, value=exemplar.value * self._scale)
        return found
