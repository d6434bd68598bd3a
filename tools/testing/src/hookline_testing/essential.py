"""Marks parameters of tests that are left to `make test-all`."""

import os
from collections.abc import Iterable

import pytest


def essential(values: Iterable[object], *chosen: object) -> list[object]:
    """Returns the parameters of a test; all but the chosen ones are `exhaustive`.

    A tuple is the values of several parameters.

    Raises:
        ValueError: A chosen value is not among the values.
    """
    every = list(values)
    if missing := [value for value in chosen if value not in every]:
        raise ValueError(f"not among the parameters: {missing}")
    return [value if value in chosen else _exhaustive(value) for value in every]


def examples(count: int) -> int:
    """Returns how many examples hypothesis draws: all in `make test-all`, else a third.

    They are others in each run, so that no example is left out for good.
    """
    return count if os.environ.get("HOOKLINE_TEST_ALL") else count // 3


def _exhaustive(value: object) -> object:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.exhaustive)
