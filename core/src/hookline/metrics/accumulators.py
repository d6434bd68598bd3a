"""Plain sums behind the metrics, by values of their own labels; they lock nothing."""

from bisect import bisect_left
from dataclasses import dataclass

from hookline.metrics.metric import Labels


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

    def update(
        self,
        labels: Labels,
        value: float,
        count: int = 1,  # noqa: ARG002
        exemplar: Exemplar | None = None,  # noqa: ARG002
    ) -> None:
        self.values[labels] = value

    def clear(self) -> None:
        self.values.clear()


class Counter:
    """A sum of increments."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def update(
        self,
        labels: Labels,
        value: float,
        count: int = 1,
        exemplar: Exemplar | None = None,  # noqa: ARG002
    ) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + value * count


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

    def update(
        self,
        labels: Labels,
        value: float,
        count: int = 1,  # noqa: ARG002
        exemplar: Exemplar | None = None,  # noqa: ARG002
    ) -> None:
        total = self._bases.get(labels, 0.0) + value
        self.values[labels] = max(self.values.get(labels, 0.0), total)

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

    def observe(
        self, value: float, count: int = 1, exemplar: Exemplar | None = None
    ) -> None:
        """Adds `count` observations of the same value at once."""
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += count
        self.sum += value * count
        if exemplar is not None:
            self.exemplars[bucket] = exemplar


class Histogram:
    """Observations in buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.values: dict[Labels, HistogramSeries] = {}
        self.bounds = bounds

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, HistogramSeries(self.bounds))

    def update(
        self,
        labels: Labels,
        value: float,
        count: int = 1,
        exemplar: Exemplar | None = None,
    ) -> None:
        series = self.values.get(labels)
        if series is None:
            series = self.values[labels] = HistogramSeries(self.bounds)
        series.observe(value, count, exemplar)


Accumulator = Gauge | Counter | RunningTotal | Histogram
