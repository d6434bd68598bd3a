"""Whether a plugin's distribution fits what is installed beside it."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from hookline_registry.declarations import declared_at
from hookline_registry.discovery import InstalledPlugin

_PLAIN = re.compile(r"(?P<name>[\w.-]+)<(?P<below>[\d.]+),>=(?P<least>[\d.]+)")
"""A requirement as all of ours are."""


def unmet(project: str, plugin: InstalledPlugin) -> str | None:
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
