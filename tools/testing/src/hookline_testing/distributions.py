"""The distributions of the repository, by their pyproject.toml."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROJECTS = (
    "pyproject.toml",
    "*/pyproject.toml",
    "core/*/pyproject.toml",
    "models/*/pyproject.toml",
    "plugins/*/*/pyproject.toml",
    "tools/*/pyproject.toml",
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a pyproject.toml declares.

    Attributes:
        folder: Where it is.
        table: All of it.
    """

    folder: Path
    table: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.table["project"]["name"])

    @property
    def packages(self) -> tuple[Path, ...]:
        """Folders of its import packages."""
        wheel = self.table["tool"]["hatch"]["build"]["targets"]["wheel"]
        return tuple(self.folder / each for each in wheel.get("packages", ()))

    @property
    def needs(self) -> frozenset[str]:
        """Names of the distributions that are installed with it."""
        return names_of(self.table["project"].get("dependencies", ()))

    @property
    def options(self) -> frozenset[str]:
        """Names of those that its extras add."""
        extras = self.table["project"].get("optional-dependencies", {})
        return names_of(line for lines in extras.values() for line in lines)


Distributions = Mapping[str, Distribution]
"""By their names."""


def read_distribution(folder: Path) -> Distribution:
    text = (folder / "pyproject.toml").read_text("utf-8")
    return Distribution(folder, tomllib.loads(text))


def read_distributions(root: Path) -> dict[str, Distribution]:
    """Returns all distributions of a repository."""
    projects = (path for glob in _PROJECTS for path in sorted(root.glob(glob)))
    found = (read_distribution(path.parent) for path in projects)
    return {each.name: each for each in found}


def with_needs(distributions: Distributions, names: Iterable[str]) -> set[str]:
    """Returns the names of distributions, some given ones and all that they need.

    Others that are given or needed are left out.
    """
    found = set(names) & distributions.keys()
    for name in tuple(found):
        found |= with_needs(distributions, distributions[name].needs)
    return found


def without(distributions: Distributions, name: str) -> set[str]:
    """Returns the names of all distributions but one and those that need it."""
    return {
        each for each in distributions if name not in with_needs(distributions, [each])
    }


def names_of(requirements: Iterable[str]) -> frozenset[str]:
    return frozenset(_names(requirements))


def _names(requirements: Iterable[str]) -> Iterator[str]:
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        yield name.lower().replace("_", "-")
