"""What the accumulators hold at one moment, as plain data in a dialect's names."""

from collections.abc import Iterable
from dataclasses import dataclass

from hookline.metrics.accumulators import Accumulator, Histogram
from hookline.metrics.metric import Alias, Kind, Labels, Metric


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """A histogram's series.

    Attributes:
        bounds: Upper bounds, inclusive, rising; infinity is understood.
        counts: Of each bucket alone, the last for values above all bounds.
        sum: Of the values seen.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Sample:
    """One series: values of the family's labels, in their order, and its number."""

    labels: Labels
    value: float | HistogramValue


@dataclass(frozen=True, slots=True)
class Family:
    """All series of a name.

    Attributes:
        name: In the dialect asked for, without `_total` for counters.
        kind: Counter, gauge or histogram.
        unit: Base unit in the plural; `1` where there is none.
        help: What it counts.
        label_names: Of every sample.
        samples: The series.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    label_names: Labels
    samples: tuple[Sample, ...]


def family_of(metric: Metric, alias: Alias, accumulator: Accumulator) -> Family:
    """The metric as the alias tells it."""
    return Family(
        name=alias.name,
        kind=metric.kind,
        unit=metric.unit,
        help=metric.help,
        label_names=tuple(
            alias.rename.get(name, name)
            for name in metric.label_names
            if name not in alias.drop
        ),
        samples=tuple(_samples(metric, alias, accumulator)),
    )


def _samples(
    metric: Metric, alias: Alias, accumulator: Accumulator
) -> Iterable[Sample]:
    if isinstance(accumulator, Histogram):
        for labels, series in accumulator.values.items():
            counts = tuple(series.counts)
            yield Sample(labels, HistogramValue(series.bounds, counts, series.sum))
    elif alias.is_plain:
        for labels, value in accumulator.values.items():
            yield Sample(labels, value)
    else:
        yield from _merged(metric.label_names, alias, accumulator.values)


def _merged(
    names: Labels, alias: Alias, values: dict[Labels, float]
) -> Iterable[Sample]:
    """Applies the alias's values and dropped labels; equal series are added up."""
    sums: dict[Labels, float] = {}
    for labels, value in values.items():
        theirs = _translated(names, alias, labels)
        if theirs is not None:
            sums[theirs] = sums.get(theirs, 0.0) + value
    return [Sample(labels, value) for labels, value in sums.items()]


def _translated(names: Labels, alias: Alias, labels: Labels) -> Labels | None:
    theirs: list[str] = []
    for name, label in zip(names, labels, strict=True):
        known = alias.values.get(name)
        if known is not None and label not in known:
            return None
        if name not in alias.drop:
            theirs.append(known[label] if known else label)
    return tuple(theirs)
