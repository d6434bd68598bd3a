"""The page about metrics."""

from pathlib import Path

from hookline_metrics import CATALOGUE, DIALECTS
from hookline_metrics.document import document

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_page_is_up_to_date() -> None:
    """docs/metrics.md is what the catalogue gives."""
    assert PAGE.read_text(encoding="utf-8") == document()


def test_changelog_lists_deprecated_names() -> None:
    """Each hidden name stands in the release notes, with what to use instead."""
    notes = CHANGELOG.read_text(encoding="utf-8")
    deprecated = notes.partition("### Deprecated\n")[2].partition("\n### ")[0]
    rows = {
        f"| `{metric.exposed(alias.name)}` | `{alias.replaced_by}` |"
        for metric in CATALOGUE
        for dialect in DIALECTS
        for alias in metric.aliases(dialect)
        if alias.hidden_since
    }

    assert {line for line in deprecated.splitlines() if line.startswith("| `")} == rows


def test_page_has_a_section_for_each_metric() -> None:
    """Each of Hookline's own names has its help text and a line of facts."""
    page = document()

    for metric in CATALOGUE:
        if metric.is_own:
            name = metric.exposed(metric.name)
            assert f"\n## `{name}`\n\n{metric.help}\n\n_{metric.kind}" in page
