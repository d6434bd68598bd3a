"""Exponential buckets, which must be Prometheus' to the last bit."""

import hashlib
import math
import struct
from decimal import Decimal, localcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline_metrics.native_buckets import (
    COARSEST,
    FINEST,
    HIGHEST,
    LOWEST,
    ZERO_THRESHOLD,
    NativeBuckets,
    NativeScale,
    bounds_of_schema,
    schema_of,
)

SCHEMAS = range(COARSEST, FINEST + 1)
schemas = st.integers(COARSEST, FINEST)
observations = st.lists(
    st.floats(0, 2.0 ** (HIGHEST + 2)) | st.sampled_from(bounds_of_schema(3)),
    max_size=60,
)

PUBLISHED = (
    *(0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048),
    *(0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711),
)
"""What Prometheus' and its clients' tables have between 0.5 and 1 for schema 3."""

DIGEST = "9de5914e4bc19f96dd1f461efa1b8f3fd6bfe80297b3a5a46302dac8a388c730"
"""SHA-256 of the 256 numbers of their tables for schema 8."""


def index_of(bound: int, schema: int) -> int:
    """The index of the bucket that ends at a bound."""
    return bound + (LOWEST << schema if schema > 0 else LOWEST >> -schema)


def buckets_of(values: list[float], schema: int) -> NativeBuckets:
    scale, counts = NativeScale(schema), dict[int, int]()
    for value in values:
        position = scale.position(value)
        counts[position] = counts.get(position, 0) + 1
    return scale.buckets(counts)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_bounds_are_powers_of_the_base(schema: int) -> None:
    """In the first octave, each is 2 ** (index / 2 ** schema) up to 4 units in the last
    place, and everywhere larger than the one before."""
    bounds = bounds_of_schema(schema)

    assert (bounds[0], bounds[-1]) == (ZERO_THRESHOLD, 2.0**HIGHEST)
    assert all(before < after for before, after in pairwise(bounds))
    with localcontext() as context:
        context.prec = 40
        octave = range(len(bounds))[: 1 + 2 ** max(schema, 0)]
        for number, bound in zip(octave, bounds, strict=False):
            exponent = Decimal(index_of(number, schema)) / Decimal(2) ** schema
            error = abs(Decimal(bound) - Decimal(2) ** exponent)
            assert error <= 4 * Decimal(math.ulp(bound))


def test_bounds_are_those_that_prometheus_has() -> None:
    """Between 0.5 and 1 they are the published ones."""
    eighths = [each for each in bounds_of_schema(3) if 0.5 <= each < 1]
    finest = [each for each in bounds_of_schema(FINEST) if 0.5 <= each < 1]

    assert tuple(eighths) == PUBLISHED
    assert hashlib.sha256(struct.pack("<256d", *finest)).hexdigest() == DIGEST


@pytest.mark.parametrize("schema", range(FINEST + 1))
def test_octaves_are_alike(schema: int) -> None:
    """Each bound is twice the one an octave below, as everywhere in Prometheus."""
    bounds, octave = bounds_of_schema(schema), 2**schema

    assert bounds[octave:] == tuple(2 * each for each in bounds[:-octave])


@pytest.mark.parametrize("schema", SCHEMAS)
def test_bounds_are_inclusive(schema: int) -> None:
    """A bound is in the bucket that it ends, and the next number in the next one."""
    scale = NativeScale(schema)

    for number, bound in enumerate(scale.bounds):
        assert scale.position(bound) == number
        assert scale.position(math.nextafter(bound, math.inf)) == number + 1
        assert scale.position(math.nextafter(bound, 0)) == number


@given(st.floats(ZERO_THRESHOLD, 2.0**HIGHEST, exclude_min=True), schemas)
def test_index_is_the_logarithm_rounded_up(value: float, schema: int) -> None:
    """The bucket i of a value is the first whose end 2 ** (i / 2 ** schema) reaches it,
    computed exactly."""
    [index] = buckets_of([value], schema).counts

    with localcontext() as context:
        context.prec = 40
        exact = Decimal(value).ln() / Decimal(2).ln() * Decimal(2) ** schema
        near = 4 * 2.0**schema * 2.0**-52  # of bounds with rounding errors
        assert index - 1 - near < exact <= index + near


@pytest.mark.parametrize("value", [-1.0, 0.0, 1e-12, ZERO_THRESHOLD])
def test_values_near_zero_are_in_the_zero_bucket(value: float) -> None:
    """So are negative ones, which no metric has."""
    assert buckets_of([value], 3) == NativeBuckets(3, 1, {})


def test_values_beyond_the_range_are_in_the_highest_bucket() -> None:
    """What is larger than any number that a metric has is still counted."""
    found = buckets_of([2.0**HIGHEST, 2.0 ** (HIGHEST + 1), math.inf], 3)

    assert found.counts == {HIGHEST * 8: 1, HIGHEST * 8 + 1: 2}


@given(observations, schemas, st.integers(6, 40))
def test_limit_holds_and_loses_nothing(
    values: list[float], schema: int, most: int
) -> None:
    """There are never more buckets than allowed, and merged pairs are what counting at
    the lower resolution would have given."""
    buckets = buckets_of(values, schema)

    limited = buckets.limited(most)

    assert len(limited.counts) <= most
    assert limited == buckets_of(values, limited.schema)
    assert limited.count == len(values)
    assert limited.schema == schema or len(buckets.counts) > most
    assert limited.limited(most) == limited


@given(observations, observations, st.integers(6, 40))
def test_resolution_only_falls(
    before: list[float], later: list[float], most: int
) -> None:
    """More observations never bring a finer resolution back."""
    one = buckets_of(before, 5).limited(most)
    other = buckets_of([*before, *later], 5).limited(most)

    assert other.schema <= one.schema


@given(observations, observations)
def test_sums_are_those_of_all_observations(
    one: list[float], other: list[float]
) -> None:
    """Two histograms together have what one would have counted."""
    both = buckets_of(one, 4).added(buckets_of(other, 4))

    assert both == buckets_of([*one, *other], 4)


@pytest.mark.parametrize(
    ("factor", "schema"),
    [
        *((65536, -4), (65535, -3), (4, -1), (2, 0), (1.5, 1), (1.1, 3), (1.05, 4)),
        *((2 ** (1 / 8), 3), (1.0027, 8), (1.0000001, 8)),
    ],
)
def test_factor_chooses_the_coarsest_schema_that_fits(
    factor: float, schema: int
) -> None:
    """Buckets grow by at most the factor, as far as there is such a schema."""
    assert schema_of(factor) == schema
