"""A snapshot of the accumulators as plain data, in a dialect's names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hookline_metrics.accumulators import Histogram, HistogramSeries
from hookline_metrics.histogram_value import HistogramValue
from hookline_metrics.metric import Alias, Kind, Labels, Metric
from hookline_metrics.projection import Projection
from hookline_metrics.selection import Selection
from hookline_metrics.sums import Sums, TrackedMetric


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
        self._projections: dict[int, Projection] = {}
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

    def build(
        self,
        sources: Sequence[tuple[Sums, TrackedMetric]],
        *,
        with_native: bool = False,
    ) -> Family:
        """Returns the family, with the sources' values added up.

        Histograms have exponential buckets only if they are asked for and counted.
        """
        alias, metric = self._alias, self._metric
        kind = metric.kind_of(alias)
        # Drops projections of engines that have disappeared.
        self._projections = {
            source.max_model_len: self._projection(source, tracked.accumulator)
            for source, tracked in sources
            if isinstance(tracked.accumulator, Histogram)
        }
        samples: dict[Labels, Sample] = {}
        for source, tracked in sources:
            since = None if kind is Kind.GAUGE else source.since
            for own, value in tracked.accumulator.values.items():
                labels = self._translated(source.labels + own)
                if labels is None:
                    continue
                number = self._number(value, source, with_native=with_native)
                sample = Sample(labels, number, since)
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

    def _number(
        self, value: float | HistogramSeries, source: Sums, *, with_native: bool
    ) -> float | HistogramValue:
        if isinstance(value, HistogramSeries):
            projection = self._projections[source.max_model_len]
            return projection.value(value, with_native=with_native)
        return value * self._alias.scale

    def _projection(self, source: Sums, histogram: Histogram) -> Projection:
        known = self._projections.get(source.max_model_len)
        if known is not None:
            return known
        metric, alias, selection = self._metric, self._alias, self._selection
        is_summary = metric.kind_of(alias) is Kind.SUMMARY
        return Projection(
            histogram.bounds,
            selection.bounds(metric, alias, source.max_model_len),
            alias.scale,
            None if is_summary else selection.native_scale(alias),
        )

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


def _joined(one: Sample, other: Sample) -> Sample:
    """Adds up a series of two sources; it counts since the earlier one's start."""
    times = [each.since for each in (one, other) if each.since is not None]
    value = _added(one.value, other.value)
    return Sample(one.labels, value, min(times, default=None))


def _added(
    one: float | HistogramValue, other: float | HistogramValue
) -> float | HistogramValue:
    if isinstance(one, HistogramValue) and isinstance(other, HistogramValue):
        return one.added(other)
    assert not isinstance(one, HistogramValue)
    assert not isinstance(other, HistogramValue)
    return one + other
