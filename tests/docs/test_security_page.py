"""Every test that docs/security.md names exists."""

import ast
import re
from functools import cache
from pathlib import Path

from hookline_testing.table_walk import for_each_row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[^`]+\.py)::(\w+)`", PAGE)))


@cache
def defined(path: str) -> set[str]:
    """Names of the functions in a file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@for_each_row("path, name", NAMED)
def test_named_test_exists(path: str, name: str) -> None:
    """
    A proof that the page names can be run.
    """
    assert name in defined(path)


def test_every_row_names_a_test() -> None:
    """
    Advisories and faults have a proof in each row.
    """
    tables = PAGE[PAGE.index("## Advisories") : PAGE.index("## What is not protected")]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    heads = [row for row in rows if row.endswith("| test |")]

    assert len(heads) == 2
    assert len(rows) > 40
    assert all("`tests/" in row for row in rows if row not in heads)
