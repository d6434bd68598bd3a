"""Accumulators of metric values, keyed by label values; not thread-safe."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hookline_metrics.metric import Labels, Point


class TraceAt(NamedTuple):
    """The trace of a request that was observed, and when it was.

    Attributes:
        trace_id: Trace of the request.
        span_id: Span of the request; empty if it is not known.
        at: Time of the observation, in seconds since the epoch.
    """

    trace_id: str
    span_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An observation linked to a trace.

    Attributes:
        trace_id: Trace of the request.
        value: The observed value.
        at: Time of the observation, in seconds since the epoch.
        span_id: Span of the request; empty if it is not known.
    """

    trace_id: str
    value: float
    at: float
    span_id: str = ""


class Gauge:
    """The most recent value of each series."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def record(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:  # noqa: ARG002
        values = self.values
        for labels, value, _ in points:
            values[labels] = value

    def clear(self) -> None:
        self.values.clear()


class FleetingGauge(Gauge):
    """The series of the most recent part alone."""

    def create(self, labels: Labels) -> None:
        """Creates nothing: there is no value yet."""

    def record(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:
        self.values.clear()
        super().record(points, trace_at)


class Counter:
    """A sum of increments."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def record(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:  # noqa: ARG002
        values = self.values
        for labels, value, count in points:
            values[labels] = values.get(labels, 0.0) + value * count


class RunningTotal:
    """A counter fed with running totals, so that a lost batch loses no counts.

    Ignores totals below the previous one. Call `restart` when the source restarts from
    0; the counter continues from its value.

    Attributes:
        values: The counter of each series.
        bases: What the counter was when the source began to count from 0.
    """

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}
        self.bases: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def record(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:  # noqa: ARG002
        values = self.values
        for labels, value, _ in points:
            total = self.bases.get(labels, 0.0) + value
            values[labels] = max(values.get(labels, 0.0), total)

    def restart(self) -> None:
        """Expects every series to count from 0 again."""
        self.bases = dict(self.values)


class HistogramSeries:
    """One series of a histogram.

    Attributes:
        bounds: Inclusive upper bounds, ascending, without infinity.
        counts: Observations by bucket, not cumulative; the last is above all bounds.
            Buckets without any are left out.
        sum: Sum of the observed values.
        exemplars: The most recent exemplar of each bucket that has one.
    """

    __slots__ = ("bounds", "counts", "exemplars", "sum")

    def __init__(self, bounds: tuple[float, ...], total: float = 0.0) -> None:
        self.bounds = bounds
        self.counts: defaultdict[int, int] = defaultdict(int)
        self.sum = total
        self.exemplars: dict[int, Exemplar] = {}

    @property
    def count(self) -> int:
        return sum(self.counts.values())


class Histogram:
    """Observations in buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.values: dict[Labels, HistogramSeries] = {}
        self.bounds = bounds

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, HistogramSeries(self.bounds))

    def record(self, points: Iterable[Point], trace_at: TraceAt | None = None) -> None:
        """Adds observations, each with its number of occurrences.

        Inlined into one loop because a step may add hundreds of intervals.
        """
        bounds, series, latest = self.bounds, None, None
        for labels, value, count in points:
            if series is None or labels is not latest:
                series, latest = self.values.get(labels), labels
                if series is None:
                    series = self.values[labels] = HistogramSeries(bounds)
                counts = series.counts
            bucket = bisect_left(bounds, value)
            counts[bucket] += count
            series.sum += value * count
            if trace_at is not None:
                series.exemplars[bucket] = Exemplar(
                    trace_at.trace_id, value, trace_at.at, trace_at.span_id
                )


Accumulator = Gauge | Counter | RunningTotal | Histogram
