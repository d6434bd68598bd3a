"""Marks parameters of tests that are left to `make test-all`."""

import os
import re
from collections.abc import Iterable
from functools import partial
from itertools import combinations
from operator import contains

import pytest
from _pytest.mark.expression import Expression


def essential(
    values: Iterable[object], *chosen: object, slow: Iterable[object] = ()
) -> list[object]:
    """Returns the parameters of a test; all but the chosen ones are `exhaustive`.

    A tuple is the values of several parameters.

    Args:
        values: All parameters.
        chosen: Those of `make test`.
        slow: Those that are `slow` instead, unless they are chosen: CI has them.

    Raises:
        ValueError: A chosen or slow value is not among the values.
    """
    every, others = list(values), list(slow)
    if missing := [value for value in (*chosen, *others) if value not in every]:
        raise ValueError(f"not among the parameters: {missing}")
    return [
        value
        if value in chosen
        else _marked(value, "slow" if value in others else "exhaustive")
        for value in every
    ]


def examples(count: int) -> int:
    """Returns how many examples hypothesis draws: all in `make test-all`, else a third.

    They are others in each run, so that no example is left out for good.
    """
    return count if os.environ.get("HOOKLINE_TEST_ALL") else count // 3


def may_be_asked_for(source: str, asked: str) -> bool:
    """Whether tests of this source can have the marks that pytest's `-m` asks for.

    A test has any of the marks that the source names, and those of `essential`.
    """
    names = {*re.findall(r"\bmark\.(\w+)", source)}
    names |= {"exhaustive"} if "essential" in source else set()
    names |= {"slow"} if "slow=" in source else set()
    names &= {*re.findall(r"\w+", asked)}
    is_asked = Expression.compile(asked).evaluate
    return any(
        is_asked(partial(contains, each))
        for count in range(len(names) + 1)
        for each in combinations(names, count)
    )


def _marked(value: object, mark: str) -> object:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=getattr(pytest.mark, mark))
