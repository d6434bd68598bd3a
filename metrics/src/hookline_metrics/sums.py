"""The accumulators of one source: an engine or the front end."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from hookline.tells import Tells
from hookline_metrics.accumulators import (
    Accumulator,
    Counter,
    FleetingGauge,
    Gauge,
    Histogram,
    RunningTotal,
    TraceAt,
)
from hookline_metrics.label_guard import LabelGuard, LabelGuards
from hookline_metrics.metric import Kind, Labels, Metric, Point, Scope, Value
from hookline_metrics.needs import needs_of
from hookline_metrics.readings import RUNNING_TOTALS, Reading
from hookline_metrics.selection import Bounds, Chosen, Selection

Read = Callable[[object], Iterable[Point]]
RecordPoints = Callable[[Iterable[Point], TraceAt | None], None]


@dataclass(frozen=True, slots=True)
class TrackedMetric:
    """A selected metric and its accumulator."""

    chosen: Chosen
    accumulator: Accumulator


class Sums:
    """Feeds payload parts to the accumulators of the metrics that read them.

    Attributes:
        labels: Values of the labels common to all its series.
        max_model_len: The engine's context length, which bounds token buckets.
        since: When it began to count, in seconds since the epoch.
        metrics: The source's metrics with their accumulators, those that it tells.
        told: What it tells.
    """

    def __init__(
        self,
        selection: Selection,
        guards: LabelGuards,
        *,
        scope: Scope,
        since: float,
        labels: Labels = (),
        max_model_len: int = 1,
    ) -> None:
        self.labels = labels
        self.max_model_len = max_model_len
        self.since = since
        self.told: Collection[Tells] = frozenset(Tells)
        make = _Accumulators(selection, max_model_len).make
        self.metrics = self._all = tuple(
            TrackedMetric(chosen, make(chosen))
            for chosen in selection.chosen
            if chosen.metric.scope is scope
        )
        # Resolved once, so that a step only touches the metrics that read its parts.
        self._readers: dict[type, list[tuple[Read, RecordPoints]]] = {}
        for each in self.metrics:
            metric = each.chosen.metric
            readers = self._readers.setdefault(metric.value.kind, [])
            read = _guarded(metric, guards)
            readers.append((read, each.accumulator.record))
            choices = (label.values or label.known for label in metric.labels)
            for values in product(*choices):
                each.accumulator.create(values)

    def keep_to(self, told: Collection[Tells]) -> None:
        """Hides the metrics that need what the source does not tell: no 0 for them."""
        self.told = told
        self.metrics = tuple(
            each
            for each in self._all
            if all(need in told for need in needs_of(each.chosen.metric))
        )

    def feed(self, part: object, trace_at: TraceAt | None = None) -> None:
        """Accumulates a part, with the trace that it belongs to, if any."""
        for read, take in self._readers.get(type(part), ()):
            if points := read(part):
                take(points, trace_at)

    def restart(self) -> None:
        """Handles a restarted source: clears gauges, expects totals from 0."""
        for each in self._all:
            if isinstance(each.accumulator, Gauge):
                each.accumulator.clear()
            elif isinstance(each.accumulator, RunningTotal):
                each.accumulator.restart()

    def restart_totals(self, kinds: Collection[type]) -> None:
        """Expects totals of these kinds of parts from 0 again."""
        for each in self._all:
            is_one = each.chosen.metric.value.kind in kinds
            if is_one and isinstance(each.accumulator, RunningTotal):
                each.accumulator.restart()


class _Accumulators:
    """Makes the accumulators of one source."""

    def __init__(self, selection: Selection, max_model_len: int) -> None:
        self._selection = selection
        self._max_model_len = max_model_len
        self._bounds: dict[Bounds, Bounds] = {}

    def make(self, chosen: Chosen) -> Accumulator:
        metric = chosen.metric
        if metric.kind is Kind.GAUGE:
            return FleetingGauge() if metric.is_fleeting else Gauge()
        if metric.kind is Kind.HISTOGRAM:
            bounds = self._selection.all_bounds(chosen, self._max_model_len)
            # Equal ones are shared, which saves memory and cache misses.
            return Histogram(self._bounds.setdefault(bounds, bounds))
        return RunningTotal() if metric.value.kind in RUNNING_TOTALS else Counter()


def _reader(value: Value) -> Read:
    """Returns what reads parts of the value's class; `feed` gives it no others."""
    return value.points if isinstance(value, Reading) else value.read


def _guarded(metric: Metric, guards: LabelGuards) -> Read:
    """Reads the metric, with bounded values of its open labels."""
    read = _folding(metric, guards)
    if metric.is_fleeting:  # an iterator is true, so that no points are recorded, too
        return lambda part: iter(read(part))
    return read


def _folding(metric: Metric, guards: LabelGuards) -> Read:
    read = _reader(metric.value)
    found: Mapping[int, LabelGuard] = {
        index: guard
        for index, label in enumerate(metric.labels)
        if (guard := guards.of(label)) is not None
    }
    if not found:
        return read

    def guarded(part: object) -> Iterable[Point]:
        for labels, value, count in read(part):
            folded = tuple(
                found[index].fold(label) if index in found else label
                for index, label in enumerate(labels)
            )
            yield folded, value, count

    if metric.kind is Kind.GAUGE:
        return lambda part: _added(guarded(part))
    return guarded


def _added(points: Iterable[Point]) -> Iterable[Point]:
    """Adds up the points that share labels because their values were folded."""
    sums: dict[Labels, float] = {}
    for labels, value, _ in points:
        sums[labels] = sums.get(labels, 0.0) + value
    return [(labels, value, 1) for labels, value in sums.items()]
