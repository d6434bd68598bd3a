"""A snapshot of the accumulators as plain data, in a dialect's names."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hookline.metrics.accumulators import Exemplar, HistogramSeries
from hookline.metrics.metric import Alias, Kind, Labels, Metric
from hookline.metrics.selection import Bounds, Selection
from hookline.metrics.sums import Sums, TrackedMetric


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """The value of one histogram series.

    Attributes:
        bounds: Inclusive upper bounds, ascending, without infinity.
        counts: Observations per bucket, not cumulative; the last is above all bounds.
        sum: Sum of the observed values.
        exemplars: The most recent exemplar by bucket index.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    exemplars: Mapping[int, Exemplar] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Sample:
    """One series.

    Attributes:
        labels: Label values, in the family's order.
        value: Its value.
        since: When its count began, in seconds since the epoch; None for gauges, and
            if it is not known.
    """

    labels: Labels
    value: float | HistogramValue
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family: all series of one name.

    Attributes:
        name: Name in the dialect, without `_total` for counters.
        kind: Counter, gauge, histogram, or summary without quantiles.
        unit: Base unit in the plural, or `1`.
        help: Help text.
        label_names: Label names of every sample.
        samples: The series.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    label_names: Labels
    samples: tuple[Sample, ...]


class FamilyBuilder:
    """Builds the family of one metric under one alias from all of its sources."""

    def __init__(self, metric: Metric, alias: Alias, selection: Selection) -> None:
        self._metric = metric
        self._alias = alias
        self._selection = selection
        self._constants = (*alias.add.values(), *selection.labels.values())
        self._is_plain = not (alias.values or alias.without or alias.drop)
        self._label_names = (
            *(
                alias.rename.get(name, name)
                for name in metric.label_names
                if name not in alias.drop
            ),
            *alias.add,
            *selection.labels,
        )

    @property
    def name(self) -> str:
        return self._alias.name

    def build(self, sources: Iterable[tuple[Sums, TrackedMetric]]) -> Family:
        """Returns the family, with the sources' values added up."""
        alias, metric = self._alias, self._metric
        kind = metric.kind_of(alias)
        samples: dict[Labels, Sample] = {}
        for source, tracked in sources:
            bounds = self._bounds(source)
            since = None if kind is Kind.GAUGE else source.since
            for own, value in tracked.accumulator.values.items():
                labels = self._translated(source.labels + own)
                if labels is None:
                    continue
                sample = Sample(labels, self._number(value, bounds), since)
                before = samples.get(labels)
                samples[labels] = sample if before is None else _joined(before, sample)
        return Family(
            name=alias.name,
            kind=kind,
            unit=metric.unit if alias.scale == 1 else "1",
            help=metric.help_of(alias),
            label_names=self._label_names,
            samples=tuple(samples.values()),
        )

    def _bounds(self, source: Sums) -> Bounds:
        if self._metric.kind is not Kind.HISTOGRAM:
            return ()
        return self._selection.bounds(self._metric, self._alias, source.max_model_len)

    def _number(
        self, value: float | HistogramSeries, bounds: Bounds
    ) -> float | HistogramValue:
        if isinstance(value, HistogramSeries):
            return _projected(value, bounds, self._alias.scale)
        return value * self._alias.scale

    def _translated(self, labels: Labels) -> Labels | None:
        """Returns the dialect's label values, or None if it leaves out the sample."""
        if self._is_plain:
            return labels + self._constants
        alias = self._alias
        if alias.without and self._is_left_out(labels):
            return None
        theirs: list[str] = []
        for name, label in zip(self._metric.label_names, labels, strict=True):
            known = alias.values.get(name)
            if known is not None and label not in known:
                return None
            if name not in alias.drop:
                theirs.append(known[label] if known else label)
        return (*theirs, *self._constants)

    def _is_left_out(self, labels: Labels) -> bool:
        """Whether a label's value contains a part that the dialect leaves out."""
        without = self._alias.without
        return any(
            part in label
            for name, label in zip(self._metric.label_names, labels, strict=True)
            for part in without.get(name, ())
        )


def merged(families: Sequence[Family]) -> Family:
    """Merges families of one name; equal series are added up."""
    first = families[0]
    if len(families) == 1:
        return first
    samples: dict[Labels, Sample] = {}
    for family in families:
        order = [family.label_names.index(name) for name in first.label_names]
        for sample in family.samples:
            labels = tuple(sample.labels[index] for index in order)
            ordered = Sample(labels, sample.value, sample.since)
            before = samples.get(labels)
            samples[labels] = ordered if before is None else _joined(before, ordered)
    return replace(first, samples=tuple(samples.values()))


def _projected(series: HistogramSeries, bounds: Bounds, scale: float) -> HistogramValue:
    """Converts a series to a subset of its bounds and to another unit."""
    if series.bounds == bounds and scale == 1:
        counts = tuple(series.counts)
        exemplars = dict(series.exemplars)
        return HistogramValue(bounds, counts, series.sum, exemplars)
    starts = [bisect_left(series.bounds, bound / scale) + 1 for bound in bounds]
    edges = [0, *starts, len(series.counts)]
    counts = tuple(sum(series.counts[start:end]) for start, end in pairwise(edges))
    exemplars = {}
    for index, exemplar in sorted(series.exemplars.items()):
        bucket = bisect_left(starts, index + 1)
        known = exemplars.get(bucket)
        if known is None or known.at <= exemplar.at:
            exemplars[bucket] = replace(exemplar, value=exemplar.value * scale)
    return HistogramValue(bounds, counts, series.sum * scale, exemplars)


def _joined(one: Sample, other: Sample) -> Sample:
    """Adds up a series of two sources; it counts since the earlier one's start."""
    times = [each.since for each in (one, other) if each.since is not None]
    value = _added(one.value, other.value)
    return Sample(one.labels, value, min(times, default=None))


def _added(
    one: float | HistogramValue, other: float | HistogramValue
) -> float | HistogramValue:
    if isinstance(one, HistogramValue) and isinstance(other, HistogramValue):
        if one.bounds != other.bounds:  # engines of different context lengths
            raise ValueError("histograms with different bounds cannot be added up")
        counts = tuple(map(sum, zip(one.counts, other.counts, strict=True)))
        exemplars = {**one.exemplars, **other.exemplars}
        return HistogramValue(one.bounds, counts, one.sum + other.sum, exemplars)
    assert not isinstance(one, HistogramValue)
    assert not isinstance(other, HistogramValue)
    return one + other
