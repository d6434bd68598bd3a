"""The page about metrics."""

from pathlib import Path

from hookline_metrics import CATALOGUE
from hookline_metrics.document import document

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_page_is_up_to_date() -> None:
    """docs/metrics.md is what the catalogue gives."""
    assert PAGE.read_text(encoding="utf-8") == document()


def test_page_has_a_section_for_each_metric() -> None:
    """Each of Hookline's own names has its help text and a line of facts."""
    page = document()

    for metric in CATALOGUE:
        if metric.is_own:
            name = metric.exposed(metric.name)
            assert f"\n## `{name}`\n\n{metric.help}\n\n- {metric.kind}" in page
