"""Plain sums behind the metrics, by label values; they lock nothing."""

from bisect import bisect_left

from hookline.metrics.metric import Labels


class Gauge:
    """The newest value of each series."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def update(self, labels: Labels, value: float, count: int = 1) -> None:  # noqa: ARG002
        self.values[labels] = value

    def forget(self, prefix: Labels) -> None:
        """Removes the series whose label values begin so."""
        size = len(prefix)
        stale = [labels for labels in self.values if labels[:size] == prefix]
        for labels in stale:
            del self.values[labels]


class Counter:
    """A sum of increments."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def create(self, labels: Labels) -> None:
        self.values.setdefault(labels, 0.0)

    def update(self, labels: Labels, value: float, count: int = 1) -> None:
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

    def update(self, labels: Labels, value: float, count: int = 1) -> None:  # noqa: ARG002
        total = self._bases.get(labels, 0.0) + value
        self.values[labels] = max(self.values.get(labels, 0.0), total)

    def restart(self, prefix: Labels) -> None:
        """Takes the series whose label values begin so as counting from 0 again."""
        size = len(prefix)
        for labels, value in self.values.items():
            if labels[:size] == prefix:
                self._bases[labels] = value


class HistogramSeries:
    """One series of a histogram.

    Attributes:
        bounds: Upper bounds, inclusive, rising; infinity is understood.
        counts: Of each bucket alone, the last for values above all bounds.
        sum: Of the values seen.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def observe(self, value: float, count: int = 1) -> None:
        """Adds `count` observations of the same value at once."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count


class Histogram:
    """Observations in buckets; a series has to be created before it is updated."""

    def __init__(self) -> None:
        self.values: dict[Labels, HistogramSeries] = {}

    def create(self, labels: Labels, bounds: tuple[float, ...]) -> None:
        """Makes the series, anew if it had other bounds."""
        known = self.values.get(labels)
        if known is None or known.bounds != bounds:
            self.values[labels] = HistogramSeries(bounds)

    def update(self, labels: Labels, value: float, count: int = 1) -> None:
        self.values[labels].observe(value, count)


Accumulator = Gauge | Counter | RunningTotal | Histogram
