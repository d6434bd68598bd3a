"""Exponential buckets of Prometheus' native histograms.

The bucket with the index i of schema s ends at 2 ** (i / 2 ** s), inclusive, and begins
where the one before it ends. Halving the resolution subtracts 1 from the schema and
merges buckets in pairs.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

FINEST, COARSEST = 8, -4
"""The schemas that Prometheus knows."""

LOWEST, HIGHEST = -32, 48
"""Exponents of two between which values are told apart; multiples of 16, so that both
are bounds in every schema."""

ZERO_THRESHOLD = 2.0**LOWEST
"""The zero bucket's upper bound: a quarter of a nanosecond."""


@dataclass(frozen=True, slots=True)
class NativeBuckets:
    """Counts in exponential buckets.

    Attributes:
        schema: The resolution, from `COARSEST` to `FINEST`.
        zero_count: Observations up to `ZERO_THRESHOLD`.
        counts: Observations by bucket index; buckets without any are left out. The
            highest one has the observations above 2 ** `HIGHEST`, too.
    """

    schema: int
    zero_count: int
    counts: Mapping[int, int]

    @property
    def count(self) -> int:
        return self.zero_count + sum(self.counts.values())

    def limited(self, most: int) -> Self:
        """Halves the resolution until at most `most` buckets have observations.

        As counts only grow, so does the width of buckets from snapshot to snapshot. At
        the coarsest schema there are at most six buckets.
        """
        schema, counts = self.schema, self.counts
        while len(counts) > most and schema > COARSEST:
            schema -= 1
            counts = _merged((-(-index // 2), count) for index, count in counts.items())
        return type(self)(schema, self.zero_count, counts)

    def added(self, other: Self) -> Self:
        """Returns the counts of both, which must have the same schema."""
        assert self.schema == other.schema
        counts = _merged((*self.counts.items(), *other.counts.items()))
        zero_count = self.zero_count + other.zero_count
        return type(self)(self.schema, zero_count, counts)


class NativeScale:
    """The buckets of one schema, in another unit if need be.

    Attributes:
        bounds: Upper bounds, ascending, in the unit of the observations; the first is
            that of the zero bucket.
    """

    def __init__(self, schema: int, unit: float = 1.0) -> None:
        """Divides all bounds by `unit`, the factor from the observations' unit."""
        self._schema = schema
        self._first_index = _shifted(LOWEST, schema)
        bounds = bounds_of_schema(schema)
        self.bounds = bounds if unit == 1 else tuple(each / unit for each in bounds)

    def position(self, value: float) -> int:
        """Returns the bucket of a value, from 0, the zero bucket."""
        return bisect_left(self.bounds, value)

    def buckets(self, counts: Mapping[int, int]) -> NativeBuckets:
        """Names the buckets of counts by position."""
        first = self._first_index
        indices = {first + each: count for each, count in counts.items() if each}
        return NativeBuckets(self._schema, counts.get(0, 0), indices)


def schema_of(factor: float) -> int:
    """Returns the coarsest schema whose bounds grow by at most `factor`, above 1.

    A factor below that of the finest schema gives the finest one.
    """
    for schema in range(COARSEST, FINEST):
        if 2.0**2.0**-schema <= factor:
            return schema
    return FINEST


@lru_cache(maxsize=FINEST - COARSEST + 1)
def bounds_of_schema(schema: int) -> tuple[float, ...]:
    """Returns all bounds from 2 ** `LOWEST` to 2 ** `HIGHEST`.

    They are Prometheus' to the last bit.
    """
    if schema <= 0:
        return tuple(2.0**each for each in range(LOWEST, HIGHEST + 1, 1 << -schema))
    fractions = [_fraction(step << FINEST - schema) for step in range(1 << schema)]
    octaves = range(LOWEST, HIGHEST)
    steps = [math.ldexp(part, each + 1) for each in octaves for part in fractions]
    return (*steps, 2.0**HIGHEST)


def _fraction(step: int) -> float:
    """Computes 2 ** (step / 256 - 1) with the rounding errors of Prometheus' table.

    They are those of a product of repeated square roots that begins with 1 / 2 or
    1 / sqrt(2), up to four units in the last place.
    """
    root = math.sqrt(2.0)
    product = 0.5 if step < 128 else 1 / root
    for bit in (64, 32, 16, 8, 4, 2, 1):
        root = math.sqrt(root)
        if step & bit:
            product *= root
    return product


def _shifted(exponent: int, schema: int) -> int:
    """Returns the index of the bucket that ends at a power of two."""
    return exponent << schema if schema >= 0 else exponent >> -schema


def _merged(items: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    counts: defaultdict[int, int] = defaultdict(int)
    for index, count in items:
        counts[index] += count
    return dict(counts)
