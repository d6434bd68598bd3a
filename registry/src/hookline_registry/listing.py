"""Describes every installed plugin, working or not, for `hookline plugins`."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from hookline_registry.discovery import InstalledPlugin, installed
from hookline_registry.exceptions import RegistryError
from hookline_registry.loading import load_entry_point
from hookline_registry.registry import PluginRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginKind:
    """A kind of plugin.

    Attributes:
        name: What users call it, such as `logger`.
        group: Its entry-point group.
        has_hooks: Whether its entry points name plugins with hooks, or else a factory.
    """

    name: str
    group: str
    has_hooks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """What is known of one installed plugin.

    Attributes:
        hooks: Those it implements; empty where it is broken or a plain factory.
        state: `ok`, or why it cannot be used.
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
    """Imports every installed plugin of these kinds and tells how it fares.

    A broken plugin is a row like any other.
    """
    return tuple(
        _row(PluginRegistry(project, hookspecs), kind, plugin)
        for kind in kinds
        for plugin in installed(kind.group)
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
