"""What an author has declared: in which line, and whether it fits what is installed."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    version,
)
from inspect import getsourcelines, unwrap
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

_PLAIN = re.compile(r"(?P<name>[\w.-]+)<(?P<below>[\d.]+),>=(?P<least>[\d.]+)")
"""A requirement as all of ours are."""


class _Declared(Protocol):
    @property
    def distribution(self) -> str: ...

    @property
    def requires(self) -> Sequence[str]: ...


def line_of(code: Callable[..., object] | type) -> str:
    """Returns ` (FILE:LINE)` of a function or a class, or nothing if it has no file."""
    if not isinstance(code, type):
        found = getattr(unwrap(code), "__code__", None)
        return "" if found is None else at(found.co_filename, found.co_firstlineno)
    with suppress(OSError, TypeError):
        module = sys.modules[code.__module__]
        return at(module.__file__ or "", getsourcelines(code)[1])
    return ""


def at(file: str, line: int | None) -> str:
    """Returns ` (FILE:LINE)`, for the end of a sentence."""
    return f" ({file}:{line})"


def declared_at(plugin: _Declared, text: str) -> str:
    """Returns ` (FILE:LINE)` of a text in the declarations of a plugin's distribution.

    It is a line of the author's pyproject.toml if that is on this machine, as it is for
    editable installations; else one of the installed metadata; nothing if none has it.
    """
    try:
        found = distribution(plugin.distribution)
    except (PackageNotFoundError, ValueError):
        return ""
    for file in _declarations(found):
        with suppress(OSError, UnicodeDecodeError):
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                if text in line:
                    return at(str(file), number)
    return ""


def unmet(project: str, plugin: _Declared) -> str | None:
    """Returns why a plugin was made for another version of the project, if it was.

    Args:
        project: Name of the project, with which those of its distributions begin.
        plugin: The plugin.

    Returns:
        A sentence with the author's line; None if all fits. What is not installed at
        all is told by the import that fails.
    """
    for text in plugin.requires:
        if not text.startswith(project) or "extra ==" in text:
            continue
        if (found := _conflict(text)) is not None:
            name, present, wanted = found
            return (
                f"it requires {name}{wanted}, and {name} {present} is installed: "
                f"install another version of either, or change the requirement"
                f"{declared_at(plugin, text) or declared_at(plugin, name)}"
            )
    return None


def _declarations(found: Distribution) -> list[Path]:
    stem = f"{found.name.replace('-', '_')}-{found.version}.dist-info"
    metadata = Path(str(found.locate_file(stem)))
    files = [metadata / "entry_points.txt", metadata / "METADATA"]
    with suppress(ValueError, KeyError, TypeError):
        url = urlsplit(json.loads(found.read_text("direct_url.json") or "")["url"])
        if url.scheme == "file":
            files.insert(0, Path(unquote(url.path)) / "pyproject.toml")
    return files


@cache
def _conflict(text: str) -> tuple[str, str, str] | None:
    """Returns name, installed version and wanted ones, if these do not fit."""
    if (plain := _PLAIN.fullmatch(text)) is not None:
        name, least, below = plain.group("name", "least", "below")
        present = _version(name)
        if _numbers(least) <= _numbers(present) < _numbers(below):
            return None
    from packaging.requirements import (  # noqa: PLC0415 - takes longer than the rest
        InvalidRequirement,
        Requirement,
    )

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return None
    present = _version(wanted.name)
    if wanted.marker is not None and not wanted.marker.evaluate():
        return None
    if not present or wanted.specifier.contains(present, prereleases=True):
        return None
    return wanted.name, present, str(wanted.specifier)


def _version(name: str) -> str:
    """Returns the installed version of a distribution; empty if it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """Returns the numbers of a plain version, and none of any other."""
    parts = text.split(".")
    return tuple(map(int, parts)) if all(map(str.isdecimal, parts)) else ()
