"""The structure gets simpler, never the other way: each figure has a limit.

`limits.toml` has the limits, and says how they change.
"""

import sys
from pathlib import Path

import pytest

from hookline_testing.structure.figures import (
    Figures,
    static_figures,
    traced,
    traced_figures,
)
from hookline_testing.structure.settings import (
    LIMITS,
    Limit,
    Settings,
    grown,
    lowered,
    shrunk,
)

ROOT = Path(__file__).parents[2]
SETTINGS = Settings.read(ROOT / LIMITS)
COUNTED = ("decode.", "prompt.")
"""Figures that are counted while a server runs."""


def faults(figures: Figures) -> str:
    """Prints the figures; returns what is wrong with them."""
    limits = SETTINGS.limits
    lines = [
        f"{name} {value} (limit {limits[name].most}, goal {limits[name].goal})"
        for name, value in figures.items()
    ]
    if lower := shrunk(figures, limits):
        lines.append(f"tools/measure_structure.py --lower would lower {lower}")
    sys.stdout.write("\n".join(lines) + "\n")
    return "; ".join(grown(figures, limits))


def test_sources_have_not_grown() -> None:
    """No figure of the sources and docs is above its limit, and each has one."""
    figures = static_figures(ROOT, SETTINGS)

    assert set(figures) == {
        name for name in SETTINGS.limits if not name.startswith(COUNTED)
    }
    assert not faults(figures)


@pytest.mark.slow
def test_calls_have_not_grown() -> None:
    """No step calls more functions, and no prompt passes more, than the limits."""
    figures = traced_figures(traced(ROOT, SETTINGS), SETTINGS)

    assert set(figures) == {
        name for name in SETTINGS.limits if name.startswith(COUNTED)
    }
    assert not faults(figures)


def test_limits_are_only_lowered() -> None:
    """Rewriting keeps goals and comments, and raises no limit."""
    text = '# Why.\n"a.b" = { most = 9, goal = 1 }\n"c" = { most = 3 }\n'

    assert lowered(text, {"a.b": 7, "c": 4}) == text.replace("9", "7")


@pytest.mark.parametrize(("value", "is_grown"), [(5, False), (7, False), (8, True)])
def test_a_figure_may_vary_within_its_slack(value: int, *, is_grown: bool) -> None:
    """Only above limit and slack has a figure grown."""
    found = grown({"a": value}, {"a": Limit(most=5, slack=2)})

    assert bool(found) is is_grown
