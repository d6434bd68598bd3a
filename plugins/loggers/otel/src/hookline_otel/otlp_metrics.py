"""Converts metric families to the SDK's cumulative sums, gauges and histograms."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hookline.clock import NANOSECONDS
from hookline_metrics import Family, HistogramValue, Kind, Sample
from hookline_otel.ids import span_number, trace_number

_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "1": "1"}
"""Units in UCUM notation; other units are counted things, written in braces."""

# The encoder omits None, as the protocol allows; the SDK's type does not permit it.
_NOT_KNOWN = cast("float", None)

_INTEGERS = frozenset({"server.port"})
"""Labels whose values are integers by the conventions."""


@dataclass(frozen=True, slots=True)
class Window:
    """Time range of cumulative values, in nanoseconds since the epoch."""

    start: int
    now: int


def scope_metrics(
    families: Iterable[Family],
    scope: InstrumentationScope,
    window: Window,
    *,
    has_exemplars: bool,
) -> ScopeMetrics:
    """Converts all families that have samples."""
    metrics = [
        _metric(family, window, has_exemplars=has_exemplars)
        for family in families
        if family.samples
    ]
    return ScopeMetrics(scope, metrics, scope.schema_url or "")


def _metric(family: Family, window: Window, *, has_exemplars: bool) -> Metric:
    unit = _UNITS.get(family.unit, f"{{{family.unit}}}")
    data = _data(family, window, has_exemplars=has_exemplars)
    return Metric(family.name, family.help, unit, data)


def _data(
    family: Family, window: Window, *, has_exemplars: bool
) -> Sum | Gauge | Histogram:
    cumulative = AggregationTemporality.CUMULATIVE
    if family.kind is Kind.HISTOGRAM:
        points = _histogram_points(family, window, has_exemplars=has_exemplars)
        return Histogram([*points], cumulative)
    numbers = [*_number_points(family, window)]
    if family.kind is Kind.COUNTER:
        return Sum(numbers, cumulative, is_monotonic=True)
    return Gauge(numbers)


def _number_points(family: Family, window: Window) -> Iterable[NumberDataPoint]:
    for sample in family.samples:
        if not isinstance(sample.value, HistogramValue):
            yield NumberDataPoint(
                _attributes(family, sample), window.start, window.now, sample.value
            )


def _histogram_points(
    family: Family, window: Window, *, has_exemplars: bool
) -> Iterable[HistogramDataPoint]:
    for sample in family.samples:
        if isinstance(sample.value, HistogramValue):
            yield HistogramDataPoint(
                attributes=_attributes(family, sample),
                start_time_unix_nano=window.start,
                time_unix_nano=window.now,
                count=sample.value.count,
                sum=sample.value.sum,
                bucket_counts=sample.value.counts,
                explicit_bounds=sample.value.bounds,
                min=_NOT_KNOWN,
                max=_NOT_KNOWN,
                exemplars=[*_exemplars(sample.value)] if has_exemplars else [],
            )


def _exemplars(value: HistogramValue) -> Iterable[Exemplar]:
    for exemplar in value.exemplars.values():
        # The encoder writes a trace id only with a span id.
        trace_id = trace_number(exemplar.trace_id)
        span_id = span_number(exemplar.span_id)
        if trace_id and span_id:
            yield Exemplar(
                filtered_attributes={},
                value=float(exemplar.value),
                time_unix_nano=round(exemplar.at * NANOSECONDS),
                span_id=span_id,
                trace_id=trace_id,
            )


def _attributes(family: Family, sample: Sample) -> Mapping[str, str | int]:
    # An empty label equals a missing one.
    pairs = zip(family.label_names, sample.labels, strict=True)
    return {
        name: int(value) if name in _INTEGERS else value
        for name, value in pairs
        if value
    }
