"""Lists of expressions by dashboard, as data.

A file in YAML has the name of a dashboard or program and its expressions. `<h>` in an
expression stands for each value of its list `h`; several lists make all combinations.
`absent` says why an expression has no data here, `elsewhere` that another program
reports its names. All others must have data.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

GROUPING = re.compile(r"\bby \(([^)]+)\)")
RESERVED = frozenset({"expr", "absent", "elsewhere"})


@dataclass(frozen=True, slots=True)
class Expression:
    """One PromQL expression.

    Attributes:
        text: The expression.
        absent: Why it has no data here; empty if it must have some.
        is_foreign: Whether another program reports its names.
    """

    text: str
    absent: str = ""
    is_foreign: bool = False

    @property
    def grouping(self) -> frozenset[str]:
        """Labels by which it groups; `le` goes where a quantile is taken."""
        found = GROUPING.search(self.text)
        labels = found[1].split(",") if found else ()
        return frozenset(label.strip() for label in labels) - {"le"}


@dataclass(frozen=True, slots=True)
class Dashboard:
    name: str
    expressions: tuple[Expression, ...]


def read_dashboards(folder: Path) -> list[Dashboard]:
    """Reads all files of a folder, in the order of their names."""
    return [_dashboard(path) for path in sorted(folder.glob("*.yml"))]


def _dashboard(path: Path) -> Dashboard:
    content = yaml.safe_load(path.read_text("utf-8"))
    found = dict.fromkeys(
        each for entry in content["expressions"] for each in _expand(entry)
    )
    return Dashboard(content["name"], tuple(found))


def _expand(entry: Mapping[str, Any]) -> Iterator[Expression]:
    names = [name for name in entry if name not in RESERVED]
    absent = entry.get("absent", entry.get("elsewhere", ""))
    for values in product(*(entry[name] for name in names)):
        text = str(entry["expr"])
        for name, value in zip(names, values, strict=True):
            assert f"<{name}>" in text, f"{name} is not in {entry['expr']}"
            text = text.replace(f"<{name}>", str(value))
        yield Expression(text, absent, "elsewhere" in entry)
