"""Describes every installed plugin, working or not, for `hookline plugins`."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from hookline_registry.discovery import InstalledPlugin, installed, misspelt
from hookline_registry.exceptions import RegistryError
from hookline_registry.loading import load_entry_point
from hookline_registry.registry import PluginRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginKind:
    """A kind of plugin.

    Attributes:
        name: Name for users, such as `logger`.
        group: Entry-point group.
        has_hooks: Whether entry points name plugins with hooks; else plain factories.
    """

    name: str
    group: str
    has_hooks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """The state of an installed plugin.

    Attributes:
        hooks: Hooks that it implements; empty if it is broken or a plain factory.
        state: `ok`, or the reason why it cannot be used.
    """

    name: str
    kind: str
    distribution: str
    version: str
    hooks: tuple[str, ...]
    state: str


def list_plugins(
    project: str, hookspecs: ModuleType, kinds: Sequence[PluginKind]
) -> tuple[PluginRow, ...]:
    """Imports every installed plugin of these kinds; a broken one is a row, too."""
    rows = []
    for kind in kinds:
        rows += [
            _row(PluginRegistry(project, hookspecs), kind, plugin)
            for plugin in installed(kind.group)
        ]
        rows += [_misspelt_row(kind, plugin) for plugin in misspelt(kind.group)]
    return tuple(rows)


def _misspelt_row(kind: PluginKind, plugin: InstalledPlugin) -> PluginRow:
    return PluginRow(
        name=plugin.name,
        kind=kind.name,
        distribution=plugin.distribution,
        version=plugin.version,
        hooks=(),
        state=f"its group is misspelt: {plugin.group!r} instead of {kind.group!r}",
    )


def _row(
    registry: PluginRegistry, kind: PluginKind, plugin: InstalledPlugin
) -> PluginRow:
    hooks: tuple[str, ...] = ()
    state = "ok"
    try:
        if kind.has_hooks:
            hooks = registry.hooks_of(registry.load(plugin.group, plugin.name))
        else:
            load_entry_point(plugin.group, plugin.name)
    except RegistryError as error:
        state = str(error)
    return PluginRow(
        name=plugin.name,
        kind=kind.name,
        distribution=plugin.distribution,
        version=plugin.version,
        hooks=hooks,
        state=state,
    )
