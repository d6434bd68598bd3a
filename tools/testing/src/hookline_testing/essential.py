"""Marks parameters of tests that are left to `make test-all`."""

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


def _exhaustive(value: object) -> object:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.exhaustive)
