"""Encodes exponential buckets as fields of `io.prometheus.client.Histogram`.

No metric observes negative numbers, so the fields of negative buckets are left out.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import sub

from hookline_metrics import ZERO_THRESHOLD, NativeBuckets
from hookline_metrics.wire_format import double, integer, message, signed

_SCHEMA, _ZERO_THRESHOLD, _ZERO_COUNT, _SPAN, _DELTA = 5, 6, 7, 12, 13

_LONGEST_GAP = 2
"""Empty buckets that take no more room than a new span."""


def native_fields(buckets: NativeBuckets) -> bytes:
    """Encodes the fields; the zero bucket's width tells that they are there."""
    spans, counts = _spans(buckets)
    return b"".join(
        (
            signed(_SCHEMA, buckets.schema),
            double(_ZERO_THRESHOLD, ZERO_THRESHOLD),
            integer(_ZERO_COUNT, buckets.zero_count),
            *(message(_SPAN, signed(1, gap), integer(2, size)) for gap, size in spans),
            *map(_delta, map(sub, counts, (0, *counts))),
        )
    )


@lru_cache(maxsize=1024)
def _delta(difference: int) -> bytes:
    """Encodes the difference of two counts; most are small and come again."""
    return signed(_DELTA, difference)


def _spans(
    buckets: NativeBuckets,
) -> tuple[Sequence[tuple[int, int]], Sequence[int]]:
    """Returns (distance from the end of the one before, length), and all counts."""
    spans: list[tuple[int, int]] = []
    counts: list[int] = []
    end = 0
    for index, count in sorted(buckets.counts.items()):
        gap = index - end
        if spans and gap <= _LONGEST_GAP:
            offset, size = spans[-1]
            spans[-1] = (offset, size + gap + 1)
            counts.extend([0] * gap)
        else:
            spans.append((gap, 1))
        counts.append(count)
        end = index + 1
    return spans, counts
