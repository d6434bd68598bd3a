"""Makes the distributions of a checkout importable without installing them.

usage: export PYTHONPATH=$(python benchmarks/source_tree.py FOLDER)

Writes the metadata of each distribution into the folder, as an installation would,
because plugins are found by their entry points, and prints the import path: the folder,
then the sources. For machines that lack the build backend and a network.
"""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def projects() -> Iterator[tuple[Path, Mapping[str, object]]]:
    """Yields the folder and the project table of each distribution with a package."""
    names = ("core", "metrics", "models", "offline", "plugins", "processes")
    for top in (*names, "registry", "server", "tools"):
        for found in sorted((ROOT / top).rglob("pyproject.toml")):
            yield found.parent, tomllib.loads(found.read_text())["project"]


def entry_points(project: Mapping[str, object]) -> str:
    """Returns the content of `entry_points.txt`."""
    groups = dict(project.get("entry-points", {}))  # type: ignore[call-overload]
    if scripts := project.get("scripts"):
        groups["console_scripts"] = scripts
    lines = []
    for group, entries in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in entries.items()]
    return "\n".join([*lines, ""])


def main() -> None:
    target = Path(sys.argv[1]).absolute()
    sources = []
    for folder, project in projects():
        name, version = project["name"], project["version"]
        about = target / f"{str(name).replace('-', '_')}-{version}.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        fields = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (about / "METADATA").write_text(fields)
        (about / "entry_points.txt").write_text(entry_points(project))
        sources.append(str(folder / "src"))
    inherited = os.environ.get("PYTHONPATH", "")
    print(os.pathsep.join([str(target), *sources, *filter(None, [inherited])]))


if __name__ == "__main__":
    main()
