"""The page about metrics."""

from pathlib import Path

from hookline_metrics import CATALOGUE, DIALECTS
from hookline_metrics.document import document

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_page_is_up_to_date() -> None:
    """docs/metrics.md is what the catalogue gives."""
    assert PAGE.read_text(encoding="utf-8") == document()


def test_page_names_every_metric_in_every_dialect() -> None:
    """Each exposed name stands on the page."""
    page = document()

    for metric in CATALOGUE:
        for dialect in DIALECTS:
            for alias in metric.aliases(dialect):
                assert f"`{metric.exposed(alias.name)}`" in page
