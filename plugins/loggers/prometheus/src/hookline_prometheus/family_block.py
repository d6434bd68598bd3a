"""Renders a metric family, reusing all text but the numbers between scrapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from hookline_metrics import Family, HistogramValue, Kind, Sample
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.syntax import (
    Pairs,
    bucket_blocks,
    count,
    exemplar_part,
    header,
    label_block,
    label_pairs,
    number,
)

Bounds = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Series:
    """A series' lines without their numbers, and what they are for.

    Attributes:
        bounds: Bucket bounds of a histogram.
        since: When its count began.
        heads: The lines up to their numbers.
        created: The line that tells when the count began; empty without one.
    """

    bounds: Bounds
    since: float | None
    heads: Sequence[str]
    created: str


class FamilyBlock:
    """Renders one family; not thread-safe."""

    def __init__(
        self, family: Family, media_type: MediaType, *, has_created: bool = False
    ) -> None:
        """Keeps what all snapshots of the family have in common.

        `has_created` adds `_created` samples, which only OpenMetrics has.
        """
        is_openmetrics = media_type is MediaType.OPENMETRICS
        self._name = family.name
        self._kind = family.kind
        self._label_names = family.label_names
        self._has_exemplars = is_openmetrics
        self._has_created = has_created and is_openmetrics
        self._header = header(family, media_type)
        self._series: dict[tuple[str, ...], _Series] = {}
        self._samples: tuple[Sample, ...] = ()
        self._lines = b""

    def render(self, samples: tuple[Sample, ...]) -> bytes:
        """Renders the family's lines; returns the cached ones if nothing changed."""
        if samples != self._samples:
            self._lines = self._written(samples).encode()
            self._samples = samples
        return self._lines

    def _written(self, samples: tuple[Sample, ...]) -> str:
        lines = [self._header] if samples else []
        series = {}
        for sample in samples:
            found = series[sample.labels] = self._series_of(sample)
            numbers = self._numbers(sample.value)
            lines += [
                f"{head} {text}\n"
                for head, text in zip(found.heads, numbers, strict=True)
            ]
            lines.append(found.created)
        self._series = series  # drops series that have disappeared
        return "".join(lines)

    def _series_of(self, sample: Sample) -> _Series:
        value, since = sample.value, sample.since
        bounds = value.bounds if isinstance(value, HistogramValue) else ()
        known = self._series.get(sample.labels)
        if known is not None and (known.bounds, known.since) == (bounds, since):
            return known
        pairs = label_pairs(self._label_names, sample.labels)
        heads = self._heads(pairs, bounds)
        return _Series(bounds, since, heads, self._created(pairs, since))

    def _created(self, pairs: Pairs, since: float | None) -> str:
        if since is None or not self._has_created:
            return ""
        return f"{self._name}_created{label_block(pairs)} {number(since)}\n"

    def _heads(self, pairs: Pairs, bounds: Bounds) -> Sequence[str]:
        name, labels = self._name, label_block(pairs)
        match self._kind:
            case Kind.COUNTER:
                return (f"{name}_total{labels}",)
            case Kind.GAUGE:
                return (f"{name}{labels}",)
            case Kind.SUMMARY:
                return (f"{name}_count{labels}", f"{name}_sum{labels}")
            case Kind.HISTOGRAM:
                buckets = bucket_blocks(pairs, bounds)
                return (
                    *(f"{name}_bucket{bucket}" for bucket in buckets),
                    f"{name}_count{labels}",
                    f"{name}_sum{labels}",
                )

    def _numbers(self, value: float | HistogramValue) -> Sequence[str]:
        if not isinstance(value, HistogramValue):
            return (number(value),)
        counts = [count(each) for each in accumulate(value.counts)]
        totals = (counts[-1], number(value.sum))
        if self._kind is Kind.SUMMARY:
            return totals
        if self._has_exemplars:
            for bucket, exemplar in value.exemplars.items():
                counts[bucket] += exemplar_part(exemplar)
        return (*counts, *totals)
