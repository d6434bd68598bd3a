"""Finds the tests of a folder: `python -m hookline_testing.folder_tests FOLDER`.

They are in the folder of `tests/` that mirrors it; where there is none, in the files
that import its package, or else they are those of the folder above.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_SERVERS = ("clients", "containers", "fuzz", "hostile", "soak")
"""Folders of tests that run whole servers, whichever folder they are about."""


def find_tests(folder: Path, root: Path) -> list[Path]:
    """Returns folders or files of tests, relative to the repository.

    Args:
        folder: Any folder or file of the repository, relative to it.
        root: The repository.

    Raises:
        ValueError: It does not exist, or no test is about it.
    """
    if not (root / folder).exists():
        raise ValueError(f"{folder} does not exist")
    if folder.parts[:1] == ("tests",):
        return [folder]
    inside = folder if (root / folder).is_dir() else folder.parent
    for each in (inside, *inside.parents):
        if each.parts and (found := _mirror(each, root) or _importers(each, root)):
            return found
    raise ValueError(f"no test is about {folder}")


def _importers(folder: Path, root: Path) -> list[Path]:
    """Returns the files of tests that import a folder of sources."""
    package = _package(folder)
    if package is None:
        return []
    name = re.escape(package)
    imports = re.compile(rf"^\s*(?:from|import) {name}[\s.]", re.MULTILINE)
    paths = [path.relative_to(root) for path in (root / "tests").rglob("test_*.py")]
    return sorted(
        path
        for path in paths
        if path.parts[1] not in _SERVERS
        and imports.search((root / path).read_text("utf-8"))
    )


def _mirror(folder: Path, root: Path) -> list[Path]:
    """Returns the folder of tests that mirrors another; `front_end` is `frontend`."""
    found = Path("tests")
    for name in _without_source(folder):
        same = [each for each in _folders(root / found) if _plain(each) == _plain(name)]
        if not same:
            return []
        found /= same[0]
    return [found] if found != Path("tests") else []


def _folders(path: Path) -> Iterator[str]:
    return (each.name for each in path.iterdir() if each.is_dir())


def _plain(name: str) -> str:
    return name.replace("_", "")


def _without_source(folder: Path) -> list[str]:
    """Returns the parts of a path without `src` and the package's name behind it."""
    parts = list(folder.parts)
    if "src" in parts:
        at = parts.index("src")
        del parts[at : at + 2]
    return parts


def _package(folder: Path) -> str | None:
    """Returns the dotted name of a folder of sources."""
    parts = folder.parts
    if "src" not in parts:
        return None
    return ".".join(parts[parts.index("src") + 1 :]) or None


def main() -> int:
    """Prints the tests of the folder that is the argument."""
    try:
        paths = find_tests(Path(sys.argv[1]), Path())
    except (ValueError, IndexError) as error:
        sys.stderr.write(f"FOLDER={' '.join(sys.argv[1:])}: {error}\n")
        return 2
    sys.stdout.write(" ".join(map(str, paths)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
