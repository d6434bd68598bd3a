"""docs/engines.md has what the installed engines declare."""

import re
from pathlib import Path

import pytest

from hookline.tells import Tells
from hookline_dashboards import coverage
from hookline_metrics.engine_tells import engine_names
from hookline_metrics.tells_document import MEANINGS, document
from hookline_testing.engine_contract import Case

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")


def test_table_is_what_engines_declare() -> None:
    """It was made by `python -m hookline_metrics.tells_document`."""
    assert document() in PAGE


def test_table_of_panels_is_what_engines_feed() -> None:
    """It was made by `python -m hookline_dashboards.coverage`."""
    assert coverage.document() in PAGE


def test_each_thing_has_a_meaning_and_each_engine_a_column() -> None:
    """A new one of either is in the table."""
    assert set(MEANINGS) == set(Tells)
    head = document().partition("\n")[0]
    assert all(f"`{name}`" in head for name in engine_names())


def test_suite_on_the_page_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """Its example tries an engine, and prints what came of each case."""
    [example] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    exec(compile(example, "engines.md", "exec"), {})  # noqa: S102 - code of the page

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(Case) + 2
    assert all(line.endswith("| passed |") for line in lines[2:])
