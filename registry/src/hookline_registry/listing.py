"""Describes every installed plugin, working or not, for `hookline plugins`."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from hookline_registry.discovery import (
    InstalledPlugin,
    all_installed,
    installed,
    misspelt,
)
from hookline_registry.exceptions import RegistryError
from hookline_registry.kind import PluginKind
from hookline_registry.policy import PLUGINS_VARIABLE
from hookline_registry.registry import PluginRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """The state of an installed plugin.

    Attributes:
        hooks: Hooks that it implements; empty if it is broken or may not be used.
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
    """Imports every installed plugin of these kinds; a broken one is a row, too.

    One that may not be used is not imported.
    """
    registry = PluginRegistry(project, hookspecs)
    rows = []
    for kind in kinds:
        usable = installed(kind.group)
        rows += [
            _row(registry, kind, plugin) if plugin in usable else _denied(kind, plugin)
            for plugin in all_installed(kind.group)
        ]
        rows += [_misspelt_row(kind, plugin) for plugin in misspelt(kind.group)]
    return tuple(rows)


def _denied(kind: PluginKind, plugin: InstalledPlugin) -> PluginRow:
    return PluginRow(
        name=plugin.name,
        kind=kind.name,
        distribution=plugin.distribution,
        version=plugin.version,
        hooks=(),
        state=f"it is denied ({PLUGINS_VARIABLE})",
    )


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
        hooks = registry.hooks_of(registry.load(kind, plugin.name))
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
