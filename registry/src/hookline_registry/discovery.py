"""Finds the plugins that are installed, without importing any of them."""

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageMetadata, entry_points

from hookline_registry.exceptions import DuplicatePluginError, UnknownPluginError

_SIMILARITY = 0.92
"""Minimum similarity of a misspelt group; the real groups' names are less similar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """An entry point.

    Attributes:
        name: Name that users type.
        group: Entry-point group.
        distribution: Distribution that installed it.
        version: Version of the distribution.
        value: `module` or `module:attribute`.
    """

    name: str
    group: str
    distribution: str
    version: str
    value: str

    @property
    def source(self) -> str:
        """Name and version of the distribution, for messages."""
        return f"{self.distribution} {self.version}".rstrip()


def installed(group: str) -> tuple[InstalledPlugin, ...]:
    """Lists a group's plugins, sorted by name.

    If a distribution is on the path twice, the first copy is used, as for imports.
    """
    found: dict[tuple[str, str], InstalledPlugin] = {}
    for entry in _entry_points():
        if entry.group != group:
            continue
        plugin = _describe(entry)
        found.setdefault((plugin.name, _normal(plugin.distribution)), plugin)
    return tuple(found[key] for key in sorted(found))


def find(group: str, name: str) -> InstalledPlugin:
    """Finds the plugin of that name.

    Raises:
        UnknownPluginError: No plugin has the name.
        DuplicatePluginError: Several distributions claim the name.
    """
    plugins = installed(group)
    matches = [plugin for plugin in plugins if plugin.name == name]
    if not matches:
        names = sorted({plugin.name for plugin in plugins})
        raise UnknownPluginError(group, name, names, _hint(group, name))
    if len(matches) > 1:
        sources = [plugin.source for plugin in matches]
        raise DuplicatePluginError(group, name, sources)
    return matches[0]


def misspelt(group: str) -> tuple[InstalledPlugin, ...]:
    """Lists the plugins of groups whose names are nearly that of a group."""
    groups = {entry.group for entry in _entry_points()} - {group}
    similar = {
        other
        for other in groups
        if SequenceMatcher(None, other, group).ratio() >= _SIMILARITY
    }
    return tuple(
        _describe(entry) for entry in _entry_points() if entry.group in similar
    )


def _entry_points() -> tuple[EntryPoint, ...]:
    """Returns all entry points on the import path, sorted by group.

    The start of an engine asks a dozen times, and each reading opens a file of every
    distribution: they are read again when a folder of the path has changed.
    """
    return _read(tuple((folder, _state(folder or os.curdir)) for folder in sys.path))


@lru_cache(maxsize=1)
def _read(_path: tuple[tuple[str, tuple[int, int]], ...]) -> tuple[EntryPoint, ...]:
    found = entry_points()
    return tuple(
        entry for group in sorted(found.groups) for entry in found.select(group=group)
    )


def _state(folder: str) -> tuple[int, int]:
    """Changes when a distribution is installed into a folder or removed from it."""
    with suppress(OSError):
        found = os.stat(folder)  # noqa: PTH116 - entries of the path need be no paths
        return found.st_ino, found.st_mtime_ns
    return 0, 0


def _hint(group: str, name: str) -> str:
    for plugin in misspelt(group):
        if plugin.name == name:
            return f"; {plugin.source} has it in the misspelt group {plugin.group!r}"
    return ""


def _describe(entry: EntryPoint) -> InstalledPlugin:
    metadata = entry.dist.metadata if entry.dist else None  # each access reads a file
    return InstalledPlugin(
        name=entry.name,
        group=entry.group,
        distribution=_fact(metadata, "Name") or "an unknown distribution",
        version=_fact(metadata, "Version"),
        value=entry.value,
    )


def _fact(metadata: PackageMetadata | None, key: str) -> str:
    # A half-removed distribution may have lost its metadata and kept its entry points.
    if metadata is None or key not in metadata:
        return ""
    return metadata[key]


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
