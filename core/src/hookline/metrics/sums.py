"""The accumulators of one source: an engine, or the front end."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from hookline.metrics.accumulators import (
    Accumulator,
    Counter,
    Gauge,
    Histogram,
    RunningTotal,
    TraceAt,
)
from hookline.metrics.label_guard import LabelGuard, LabelGuards
from hookline.metrics.metric import Kind, Labels, Metric, Point, Scope
from hookline.metrics.readings import RUNNING_TOTALS
from hookline.metrics.selection import Chosen, Selection

Read = Callable[[object], Iterable[Point]]
Take = Callable[[Iterable[Point], TraceAt | None], None]


@dataclass(frozen=True, slots=True)
class Told:
    """A metric's accumulator, and how it is to be told."""

    chosen: Chosen
    accumulator: Accumulator


class Sums:
    """Feeds parts of payloads to the metrics that read them.

    Attributes:
        labels: Values of the labels that all its series have.
        max_model_len: The engine's, on which some buckets depend.
        told: Its metrics.
    """

    def __init__(
        self,
        selection: Selection,
        guards: LabelGuards,
        *,
        scope: Scope,
        labels: Labels = (),
        max_model_len: int = 1,
    ) -> None:
        self.labels = labels
        self.max_model_len = max_model_len
        self.told = tuple(
            Told(chosen, _accumulator(selection, chosen, max_model_len))
            for chosen in selection.chosen
            if chosen.metric.scope is scope
        )
        # Resolved once: a step touches only the metrics that read what it brings.
        self._readers: dict[type, list[tuple[Read, Take]]] = {}
        for each in self.told:
            metric = each.chosen.metric
            readers = self._readers.setdefault(metric.value.kind, [])
            read = _guarded(metric, guards)
            readers.append((read, each.accumulator.take))
            for values in product(*(label.values for label in metric.labels)):
                each.accumulator.create(values)

    def feed(self, part: object, trace_at: TraceAt | None = None) -> None:
        """Adds what a part says, and the trace that it belongs to, if any."""
        for read, take in self._readers.get(type(part), ()):
            take(read(part), trace_at)

    def restart(self) -> None:
        """Its source has begun again: gauges go, its totals will count from 0."""
        for each in self.told:
            if isinstance(each.accumulator, Gauge):
                each.accumulator.clear()
            elif isinstance(each.accumulator, RunningTotal):
                each.accumulator.restart()


def _accumulator(
    selection: Selection, chosen: Chosen, max_model_len: int
) -> Accumulator:
    metric = chosen.metric
    if metric.kind is Kind.GAUGE:
        return Gauge()
    if metric.kind is Kind.HISTOGRAM:
        return Histogram(selection.all_bounds(chosen, max_model_len))
    return RunningTotal() if metric.value.kind in RUNNING_TOTALS else Counter()


def _guarded(metric: Metric, guards: LabelGuards) -> Read:
    """Reads the metric, with the values of its open labels bounded."""
    read = metric.value.read
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

    return guarded
