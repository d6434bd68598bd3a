"""Gives all distributions, and what names their version, a new one.

`hookline.__version__` is where it is read; each pyproject.toml repeats it, so that pip
installs any folder of a checkout.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from hookline_testing.distributions import read_distributions

HOLDER = "core/src/hookline/__init__.py"
_HELD = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def held_version(root: Path) -> str:
    """Returns the version of a checkout."""
    [held] = _HELD.findall((root / HOLDER).read_text("utf-8"))
    return str(held)


def range_of(version: str) -> str:
    """Returns which versions of ours a plugin of this version works with."""
    major, minor, _ = version.split(".")
    return f">={major}.{minor},<{major}.{int(minor) + 1}"


def set_version(root: Path, version: str) -> list[Path]:
    """Writes a version wherever it is named.

    Returns:
        The files that changed.

    Raises:
        ValueError: The version is not three numbers.
    """
    if not _VERSION.fullmatch(version):
        raise ValueError(
            f"{version!r} is no version; give three numbers, such as 0.2.0"
        )
    before = held_version(root)
    changes = {
        f'version = "{before}"': f'version = "{version}"',
        f'__version__ = "{before}"': f'__version__ = "{version}"',
        f"=={before}": f"=={version}",
        range_of(before): range_of(version),
        f"version: {before}": f"version: {version}",
        f'appVersion: "{before}"': f'appVersion: "{version}"',
        f"hookline-ray:{before}": f"hookline-ray:{version}",
    }
    changed = []
    for path in _naming(root):
        text = new = path.read_text("utf-8")
        for old, other in changes.items():
            new = new.replace(old, other)
        if new != text:
            path.write_text(new, "utf-8")
            changed.append(path)
    return changed


def _naming(root: Path) -> Iterator[Path]:
    yield root / HOLDER
    for each in read_distributions(root).values():
        yield each.folder / "pyproject.toml"
    yield root / "deploy/helm/hookline/Chart.yaml"
    yield from sorted((root / "deploy").rglob("*.yaml"))
