"""Encodes a metric family as a message of Prometheus' protobuf format.

The numbers are those of the fields in `io.prometheus.client.MetricFamily`.
"""

from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType

from hookline.clock import NANOSECONDS
from hookline_metrics import Exemplar, Family, HistogramValue, Kind, Sample
from hookline_metrics.wire_format import delimited, double, integer, message, text
from hookline_prometheus.native_message import native_fields
from hookline_prometheus.options import Options
from hookline_prometheus.syntax import exemplar_labels

_TYPES: Mapping[Kind, int] = MappingProxyType(
    {Kind.COUNTER: 0, Kind.GAUGE: 1, Kind.SUMMARY: 2, Kind.HISTOGRAM: 4}
)
_GAUGE, _COUNTER, _SUMMARY, _HISTOGRAM = 2, 3, 4, 7
_COUNTER_CREATED, _SUMMARY_CREATED, _HISTOGRAM_CREATED = 3, 4, 15

INFINITY = float("inf")


class FamilyMessage:
    """Renders one family; not thread-safe."""

    def __init__(self, family: Family, options: Options) -> None:
        """Keeps what all snapshots of the family have in common."""
        is_counter = family.kind is Kind.COUNTER
        self._kind = family.kind
        self._label_names = family.label_names
        self._options = options
        self._header = b"".join(
            (
                # Prometheus stores a counter by this name, as in classic text.
                text(1, f"{family.name}_total" if is_counter else family.name),
                text(2, family.help),
                integer(3, _TYPES[family.kind]),
            )
        )
        self._labels: dict[tuple[str, ...], bytes] = {}
        self._limits: dict[float, bytes] = {}
        self._samples: tuple[Sample, ...] = ()
        self._encoded = b""

    def render(self, samples: tuple[Sample, ...]) -> bytes:
        """Encodes the family; returns the cached message if nothing changed."""
        if samples != self._samples:
            self._encoded = self._message(samples) if samples else b""
            self._samples = samples
        return self._encoded

    def _message(self, samples: tuple[Sample, ...]) -> bytes:
        # Drops labels of series that have disappeared.
        self._labels = {each.labels: self._labels_of(each.labels) for each in samples}
        metrics = [
            message(4, self._labels[each.labels], self._value(each)) for each in samples
        ]
        return delimited(self._header, *metrics)

    def _labels_of(self, values: tuple[str, ...]) -> bytes:
        known = self._labels.get(values)
        if known is not None:
            return known
        pairs = sorted(zip(self._label_names, values, strict=True))
        return b"".join(
            message(1, text(1, name), text(2, value)) for name, value in pairs
        )

    def _value(self, sample: Sample) -> bytes:
        value = sample.value
        if not isinstance(value, HistogramValue):
            if self._kind is Kind.GAUGE:
                return message(_GAUGE, double(1, value))
            created = self._created(_COUNTER_CREATED, sample.since)
            return message(_COUNTER, double(1, value), created)
        totals = integer(1, value.count) + double(2, value.sum)
        if self._kind is Kind.SUMMARY:
            created = self._created(_SUMMARY_CREATED, sample.since)
            return message(_SUMMARY, totals, created)
        created = self._created(_HISTOGRAM_CREATED, sample.since)
        native = b""
        if value.native is not None:
            most = self._options.native_max_buckets
            native = native_fields(value.native.limited(most))
        return message(_HISTOGRAM, totals, self._buckets(value), native, created)

    def _buckets(self, value: HistogramValue) -> bytes:
        exemplars = value.exemplars
        limits = map(self._limit, (*value.bounds, INFINITY))
        return b"".join(
            message(
                3,
                integer(1, count),
                limit,
                _exemplar(exemplars[index]) if index in exemplars else b"",
            )
            for index, (count, limit) in enumerate(
                zip(accumulate(value.counts), limits, strict=True)
            )
        )

    def _limit(self, bound: float) -> bytes:
        """Encodes an upper bound, once for all series and scrapes."""
        known = self._limits.get(bound)
        if known is None:
            known = self._limits[bound] = double(2, bound)
        return known

    def _created(self, field: int, since: float | None) -> bytes:
        if since is None or not self._options.has_created_series:
            return b""
        return _timestamp(field, since)


def _exemplar(exemplar: Exemplar) -> bytes:
    """Encodes a bucket's exemplar; empty if its labels are too long."""
    pairs = exemplar_labels(exemplar)
    if not pairs:
        return b""
    labels = [message(1, text(1, name), text(2, value)) for name, value in pairs]
    return message(3, *labels, double(2, exemplar.value), _timestamp(3, exemplar.at))


def _timestamp(field: int, at: float) -> bytes:
    seconds, rest = divmod(round(at * NANOSECONDS), NANOSECONDS)
    return message(field, integer(1, seconds), integer(2, rest) if rest else b"")
