"""docs/ranks.md lists the families that ranks can divide."""

import re
from pathlib import Path

from hookline_ranks.sharding.families import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "ranks.md"


def test_every_family_is_listed() -> None:
    """Each once, and no other."""
    table = (
        PAGE.read_text("utf-8").partition("| `model_type` |")[2].partition("\n\n")[0]
    )
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]

    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert sorted(listed) == sorted(FAMILIES)
