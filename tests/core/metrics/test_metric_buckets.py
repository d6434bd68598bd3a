"""Upper bounds of the bucket families."""

import pytest

from hookline.metrics.buckets import BucketFamily, bounds_of, one_two_five


@pytest.mark.parametrize("family", list(BucketFamily))
def test_bounds_rise_strictly(family: BucketFamily) -> None:
    """Every family's bounds are positive and strictly increasing."""
    bounds = bounds_of(family, 32768)

    assert bounds[0] > 0
    assert list(bounds) == sorted(set(bounds))


def test_request_tokens_end_at_the_context_length() -> None:
    """A context of 32768 tokens gives the 14 bounds from 1 to 20000."""
    bounds = bounds_of(BucketFamily.REQUEST_TOKENS, 32768)

    assert bounds == (
        *(1, 2, 5, 10, 20, 50, 100, 200, 500),
        *(1000, 2000, 5000, 10000, 20000),
    )


@pytest.mark.parametrize(
    ("limit", "bounds"),
    [
        (1, (1,)),
        (2, (1, 2)),
        (4, (1, 2)),
        (10, (1, 2, 5, 10)),
        (99, (1, 2, 5, 10, 20, 50)),
    ],
)
def test_one_two_five_keeps_to_its_limit(limit: int, bounds: tuple[int, ...]) -> None:
    """The series holds every 1-2-5 step up to the limit, the limit included."""
    assert one_two_five(limit) == bounds
