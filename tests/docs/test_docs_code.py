"""Code in the documentation is code."""

import re
import tomllib
from pathlib import Path

from hookline_testing.table_walk import for_each_row

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("plugins/*/*/README.md"),
        *ROOT.glob("models/*/README.md"),
    ]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    found = FENCE.findall(page.read_text("utf-8"))
    return [source for kind, source in found if kind == language]


@for_each_row("page", PAGES, ids=page_name)
def test_python_in_docs_compiles(page: Path) -> None:
    """Every block of Python has the syntax of Python."""
    for source in blocks(page, "python"):
        compile(source, str(page), "exec")


@for_each_row("page", PAGES, ids=page_name)
def test_toml_in_docs_parses(page: Path) -> None:
    """Every block of TOML can be read."""
    for source in blocks(page, "toml"):
        tomllib.loads(source)


@for_each_row("page", PAGES, ids=page_name)
def test_links_in_docs_lead_somewhere(page: Path) -> None:
    """A link to another file of the repository names one that exists."""
    targets = LINK.findall(page.read_text("utf-8"))

    missing = [target for target in targets if not (page.parent / target).exists()]

    assert missing == []


def test_paths_named_in_structure_exist() -> None:
    """docs/structure.md names files and folders as they are."""
    text = (ROOT / "docs" / "structure.md").read_text("utf-8")
    named = re.findall(r"`([\w./-]+(?:\.py|/))`", text)
    core = ROOT / "core" / "src" / "hookline"

    missing = [
        name
        for name in named
        if not (ROOT / name).exists() and not (core / name).exists()
    ]

    assert named
    assert missing == []
