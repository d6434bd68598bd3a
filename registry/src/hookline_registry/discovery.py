"""Finds the plugins that are installed, without importing any of them."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.metadata import Distribution, EntryPoint, entry_points

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
    for entry in entry_points(group=group):
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
    found = entry_points()
    return tuple(
        _describe(entry)
        for other in sorted(found.groups)
        if other != group and SequenceMatcher(None, other, group).ratio() >= _SIMILARITY
        for entry in found.select(group=other)
    )


def _hint(group: str, name: str) -> str:
    for plugin in misspelt(group):
        if plugin.name == name:
            return f"; {plugin.source} has it in the misspelt group {plugin.group!r}"
    return ""


def _describe(entry: EntryPoint) -> InstalledPlugin:
    return InstalledPlugin(
        name=entry.name,
        group=entry.group,
        distribution=_fact(entry.dist, "Name") or "an unknown distribution",
        version=_fact(entry.dist, "Version"),
        value=entry.value,
    )


def _fact(distribution: Distribution | None, key: str) -> str:
    # A half-removed distribution may have lost its metadata and kept its entry points.
    if distribution is None or key not in distribution.metadata:
        return ""
    return distribution.metadata[key]


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
