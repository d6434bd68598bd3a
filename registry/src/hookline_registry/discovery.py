"""Finds the plugins that are installed, without importing any of them."""

import re
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points

from hookline_registry.exceptions import DuplicatePluginError, UnknownPluginError


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """What an entry point says of a plugin.

    Attributes:
        name: What users type.
        group: The entry-point group.
        distribution: What installed it.
        version: Of the distribution.
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

    A distribution that lies twice on the path (say, a stale copy) counts once, as it
    does for imports: the first one wins.
    """
    found: dict[tuple[str, str], InstalledPlugin] = {}
    for entry in entry_points(group=group):
        plugin = _describe(entry)
        found.setdefault((plugin.name, _normal(plugin.distribution)), plugin)
    return tuple(found[key] for key in sorted(found))


def find(group: str, name: str) -> InstalledPlugin:
    """Finds the one plugin of that name.

    Raises:
        UnknownPluginError: There is none.
        DuplicatePluginError: There is more than one.
    """
    plugins = installed(group)
    matches = [plugin for plugin in plugins if plugin.name == name]
    if not matches:
        names = sorted({plugin.name for plugin in plugins})
        raise UnknownPluginError(group, name, names)
    if len(matches) > 1:
        sources = [plugin.source for plugin in matches]
        raise DuplicatePluginError(group, name, sources)
    return matches[0]


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
