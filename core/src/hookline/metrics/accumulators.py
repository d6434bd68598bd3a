"""Plain sums behind the metrics, by values of their own labels; they lock nothing."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from hookline.metrics.metric import Labels, Point

TraceAt = tuple[str, float]
"""The trace that numbers belong to, and when, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An observation that can be looked up.

    Attributes:
        trace_id: Of its request's trace.
        value: What was observed.
        at: When, in seconds since the epoch.
    """

    trace_id: str
    value: float
    at: float


class Gauge:
    """The newest value of each series."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def take(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:  # noqa: ARG002
        values = self.values
        for labels, value, _ in points:
            values[labels] = value

    def clear(self) -> None:
        self.values.clear()


class Counter:
    """A sum of increments."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def take(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:  # noqa: ARG002
        values = self.values
        for labels, value, count in points:
            values[labels] = values.get(labels, 0.0) + value * count


class RunningTotal:
    """A counter read off a source that counts itself, so a lost batch loses nothing.

    A stale total is ignored. A source that starts again from 0 is announced by
    `restart`, and counting goes on from where it was.
    """

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}
        self._bases: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def take(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:  # noqa: ARG002
        values = self.values
        for labels, value, _ in points:
            total = self._bases.get(labels, 0.0) + value
            values[labels] = max(values.get(labels, 0.0), total)

    def restart(self) -> None:
        """Takes every series as counting from 0 again."""
        self._bases = dict(self.values)


class HistogramSeries:
    """One series of a histogram.

    Attributes:
        bounds: Upper bounds, inclusive, rising; infinity is understood.
        counts: Of each bucket alone, the last for values above all bounds.
        sum: Of the values seen.
        exemplars: The newest of each bucket that has one.
    """

    __slots__ = ("bounds", "counts", "exemplars", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    @property
    def count(self) -> int:
        return sum(self.counts)


class Histogram:
    """Observations in buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.values: dict[Labels, HistogramSeries] = {}
        self.bounds = bounds

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, HistogramSeries(self.bounds))

    def take(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:
        """Adds observations, equal ones at once.

        One loop without calls: a step may bring hundreds of intervals.
        """
        bounds, series, latest = self.bounds, None, None
        for labels, value, count in points:
            if series is None or labels is not latest:
                series, latest = self._series(labels), labels
                counts = series.counts
            bucket = bisect_left(bounds, value)
            counts[bucket] += count
            series.sum += value * count
            if trace_at is not None:
                series.exemplars[bucket] = Exemplar(trace_at[0], value, trace_at[1])

    def _series(self, labels: Labels) -> HistogramSeries:
        if labels not in self.values:
            self.values[labels] = HistogramSeries(self.bounds)
        return self.values[labels]


Accumulator = Gauge | Counter | RunningTotal | Histogram
