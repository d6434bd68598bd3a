"""Finds the plugins that are installed, without importing any of them."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions

from hookline_registry.declarations import declared_at
from hookline_registry.exceptions import DuplicatePluginError, UnknownPluginError
from hookline_registry.policy import PLUGINS_VARIABLE, PluginPolicy
from hookline_registry.spelling import did_you_mean

_SIMILARITY = 0.92
"""Minimum similarity of a misspelt group; the real groups' names are less similar."""
_READ = frozenset({"Name", "Version", "Requires-Dist"})


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
        requires: What its distribution requires, as its metadata has it.
    """

    name: str
    group: str
    distribution: str
    version: str
    value: str
    requires: tuple[str, ...] = ()

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
    return tuple(plugin for plugin, meant in astray((group,)) if meant == group)


def astray(groups: Sequence[str]) -> tuple[tuple[InstalledPlugin, str | None], ...]:
    """Lists the plugins of groups that there are not, each with the one it means.

    These are groups whose names are nearly that of one of `groups`. If several are
    given, those with the same first word count too, and mean None.
    """
    folders = _folders()
    return tuple(
        (plugin, meant)
        for other, meant in _other_groups(folders, tuple(groups))
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
    folders = _absolute(tuple(sys.path))
    return tuple([(folder, _state(folder)) for folder in folders])


@lru_cache(maxsize=64)
def _absolute(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in path if os.path.isabs(each)))  # noqa: PTH117


def _state(folder: str) -> tuple[int, int]:
    try:
        found = os.stat(folder)  # noqa: PTH116 - entries of the path need be no paths
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


@lru_cache(maxsize=256)
def _entry_points(folder: _Folder) -> tuple[EntryPoint, ...]:
    found = distributions(path=[folder[0]])
    return tuple(entry for each in found for entry in each.entry_points)


@lru_cache(maxsize=64)
def _other_groups(
    folders: tuple[_Folder, ...], groups: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    start = groups[0].partition(".")[0] + "."
    there = {entry.group for each in folders for entry in _entry_points(each)}
    found = ((other, _nearest(other, groups)) for other in sorted(there - {*groups}))
    is_family = len(groups) > 1
    return tuple(
        (other, meant)
        for other, meant in found
        if meant or (is_family and other.startswith(start))
    )


def _nearest(other: str, groups: tuple[str, ...]) -> str | None:
    """Returns the group whose name is most like another, if it is enough."""
    best, most = None, _SIMILARITY
    for group in groups:
        matcher = SequenceMatcher(None, other, group)
        if matcher.real_quick_ratio() >= most and matcher.quick_ratio() >= most:
            ratio = matcher.ratio()
            best, most = (group, ratio) if ratio >= most else (best, most)
    return best


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
            return (
                f"; {plugin.source} has it in the misspelt group {plugin.group!r}"
                f"{declared_at(plugin, plugin.group)}"
            )
    return did_you_mean(name, (plugin.name for plugin in installed(group)))


def _describe(entry: EntryPoint) -> InstalledPlugin:
    facts = _facts(entry.dist) if entry.dist else {}
    return InstalledPlugin(
        name=entry.name,
        group=entry.group,
        distribution=next(iter(facts.get("Name", ())), "an unknown distribution"),
        version=next(iter(facts.get("Version", ())), ""),
        value=entry.value,
        requires=tuple(facts.get("Requires-Dist", ())),
    )


@lru_cache(maxsize=1024)
def _facts(distribution: Distribution) -> Mapping[str, Sequence[str]]:
    """Returns the values of a distribution's metadata that are needed, by their names.

    A half-removed distribution may have lost its metadata and kept its entry points.
    """
    read = distribution.read_text
    header, _, _ = (read("METADATA") or read("PKG-INFO") or "").partition("\n\n")
    found: dict[str, list[str]] = {}
    for line in header.splitlines():
        name, colon, value = line.partition(": ")
        if colon and name in _READ:
            found.setdefault(name, []).append(value.strip())
    return found


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
