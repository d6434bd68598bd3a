"""Finds the plugins that are installed, without importing any of them."""

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageMetadata, distributions

from hookline_registry.exceptions import DuplicatePluginError, UnknownPluginError
from hookline_registry.policy import PLUGINS_VARIABLE, PluginPolicy
from hookline_registry.spelling import did_you_mean

_SIMILARITY = 0.92
"""Minimum similarity of a misspelt group; the real groups' names are less similar."""


_Folder = tuple[str, tuple[int, int]]
"""A folder of the import path, with what changes when it does."""


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
    """Lists a group's plugins that may be used, sorted by name.

    If a distribution is on the path twice, the first copy is used, as for imports.
    """
    policy = PluginPolicy.read()
    return tuple(
        each
        for each in all_installed(group)
        if policy.permits(each.name, each.distribution)
    )


def all_installed(group: str) -> tuple[InstalledPlugin, ...]:
    """Lists a group's plugins, sorted by name, also those that may not be used."""
    found: dict[tuple[str, str], InstalledPlugin] = {}
    for folder in _folders():
        for plugin in _described(folder, group):
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
    folders = _folders()
    return tuple(
        plugin
        for other in _similar_groups(folders, group)
        for folder in folders
        for plugin in _described(folder, other)
    )


def _folders() -> tuple[_Folder, ...]:
    """Lists the folders of the import path, each with what changes when it does.

    What was read of a folder is kept until a distribution is installed there or
    removed: the start of an engine asks a dozen times, and each reading opens a file of
    every distribution. Nothing is installed in the working directory, which an
    interactive Python has on its path.
    """
    folders = (each for each in sys.path if os.path.isabs(each))  # noqa: PTH117
    return tuple((folder, _state(folder)) for folder in dict.fromkeys(folders))


def _state(folder: str) -> tuple[int, int]:
    with suppress(OSError):
        found = os.stat(folder)  # noqa: PTH116 - entries of the path need be no paths
        return found.st_ino, found.st_mtime_ns
    return 0, 0


@lru_cache(maxsize=256)
def _entry_points(folder: _Folder) -> tuple[EntryPoint, ...]:
    found = distributions(path=[folder[0]])
    return tuple(entry for each in found for entry in each.entry_points)


@lru_cache(maxsize=64)
def _similar_groups(folders: tuple[_Folder, ...], group: str) -> tuple[str, ...]:
    groups = {entry.group for each in folders for entry in _entry_points(each)}
    return tuple(
        other
        for other in sorted(groups)
        if other != group and SequenceMatcher(None, other, group).ratio() >= _SIMILARITY
    )


@lru_cache(maxsize=8192)
def _described(folder: _Folder, group: str) -> tuple[InstalledPlugin, ...]:
    entries = _entry_points(folder)
    return tuple(_describe(entry) for entry in entries if entry.group == group)


def _hint(group: str, name: str) -> str:
    for plugin in all_installed(group):
        if plugin.name == name:
            return f"; {plugin.source} has it, but it is denied ({PLUGINS_VARIABLE})"
    for plugin in misspelt(group):
        if plugin.name == name:
            return f"; {plugin.source} has it in the misspelt group {plugin.group!r}"
    return did_you_mean(name, (plugin.name for plugin in installed(group)))


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
