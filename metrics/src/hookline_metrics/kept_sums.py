"""What a recorder keeps of its sums for that of a process which replaces its own.

Gauges, rates and exemplars are not kept: they are of the present.
"""

import msgspec

from hookline.tells import Tells
from hookline_metrics.accumulators import (
    Counter,
    Gauge,
    Histogram,
    HistogramSeries,
    RunningTotal,
)
from hookline_metrics.label_guard import KeptGuard
from hookline_metrics.metric import Labels
from hookline_metrics.sums import Sums

Process = tuple[int, int]
"""The clocks of an engine at its start, which no other process of it has had."""


class KeptSums(msgspec.Struct, frozen=True, array_like=True):
    """The sums of an engine or of the front end.

    Attributes:
        labels: See `Sums`.
        max_model_len: Likewise.
        since: Likewise.
        numbers: By metric, the value of each series, and what a total counts from.
        histograms: By metric, of each series the sum, and the counts by bucket.
        told: See `Sums`.
    """

    labels: Labels
    max_model_len: int
    since: float
    numbers: dict[str, list[tuple[Labels, float, float]]]
    histograms: dict[str, list[tuple[Labels, float, dict[int, int]]]]
    told: tuple[Tells, ...]


class KeptEngine(msgspec.Struct, frozen=True, array_like=True):
    """An engine's sums, and which of its requests are in them.

    Attributes:
        sums: The sums.
        process: The process of the engine that they are of.
        ended: Requests of that process that have ended, without those that came from
            another engine.
        correction: What is added to the requests that it has received.
    """

    sums: KeptSums
    process: Process
    ended: int
    correction: int


class KeptRecorder(msgspec.Struct, frozen=True, array_like=True):
    """Everything that a recorder keeps.

    Attributes:
        engines: By index.
        front_end: Sums of the front end.
        guards: By label.
    """

    engines: dict[int, KeptEngine]
    front_end: KeptSums
    guards: dict[str, KeptGuard]


def kept_sums(sums: Sums) -> KeptSums:
    """Returns what is to be kept of these sums."""
    numbers: dict[str, list[tuple[Labels, float, float]]] = {}
    histograms: dict[str, list[tuple[Labels, float, dict[int, int]]]] = {}
    for each in sums.metrics:
        name, found = each.chosen.metric.name, each.accumulator
        if isinstance(found, RunningTotal):
            bases = found.bases
            numbers[name] = [
                (labels, value, bases.get(labels, 0.0))
                for labels, value in found.values.items()
            ]
        elif isinstance(found, Counter):
            numbers[name] = [(*item, 0.0) for item in found.values.items()]
        elif isinstance(found, Histogram):
            histograms[name] = [
                (labels, series.sum, dict(series.counts))
                for labels, series in found.values.items()
            ]
    told = tuple(sorted(sums.told))
    return KeptSums(
        sums.labels, sums.max_model_len, sums.since, numbers, histograms, told
    )


def go_on(sums: Sums, kept: KeptSums) -> None:
    """Lets new sums go on with what was kept of their predecessors.

    They have no gauges until a state comes.
    """
    sums.keep_to(kept.told)
    for each in sums.metrics:
        name, found = each.chosen.metric.name, each.accumulator
        if isinstance(found, Counter | RunningTotal):
            series = kept.numbers.get(name, ())
            found.values |= {labels: value for labels, value, _ in series}
            if isinstance(found, RunningTotal):
                found.bases |= {labels: base for labels, _, base in series}
        elif isinstance(found, Gauge):
            found.clear()
        elif isinstance(found, Histogram):
            for labels, total, counts in kept.histograms.get(name, ()):
                made = HistogramSeries(found.bounds, total)
                made.counts.update(counts)
                found.values[labels] = made
