"""docs/decisions.md begins with an index of its areas."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "decisions.md"


def test_every_area_is_in_the_index() -> None:
    """The index links each area, in the page's order."""
    text = PAGE.read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)

    links = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", text.partition("\n## ")[0])

    assert links == [(heading, _anchor(heading)) for heading in headings]


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
