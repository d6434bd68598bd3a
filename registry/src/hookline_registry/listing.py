"""Describes every installed plugin, working or not, for `hookline plugins`."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from hookline_registry.declarations import declared_at, unmet
from hookline_registry.discovery import (
    InstalledPlugin,
    all_installed,
    astray,
    installed,
)
from hookline_registry.exceptions import DuplicatePluginError, RegistryError
from hookline_registry.policy import PLUGINS_VARIABLE
from hookline_registry.spelling import unknown

if TYPE_CHECKING:  # the list of what is declared needs no pluggy
    from hookline_registry.kind import PluginKind
    from hookline_registry.registry import PluginRegistry

OK = "ok"
"""State of a plugin that can be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """The state of an installed plugin.

    Attributes:
        hooks: Hooks that it implements; empty if it was not imported, or is broken.
        state: `ok`, or the reason why it cannot be used.
    """

    name: str
    kind: str
    distribution: str
    version: str
    hooks: tuple[str, ...]
    state: str


Check = Callable[["PluginKind", InstalledPlugin], PluginRow]


def list_plugins(
    project: str,
    kinds: Sequence["PluginKind"],
    hookspecs: ModuleType | None = None,
) -> tuple[PluginRow, ...]:
    """Describes every installed plugin of these kinds; a broken one is a row, too.

    Args:
        project: Name of the project.
        kinds: Its kinds of plugins.
        hookspecs: Its hook specifications. With them each plugin that may be used is
            imported, and checked against them; without, only what its distribution
            declares is.
    """
    check: Check = partial(_declared_row, project)
    if hookspecs is not None:
        from hookline_registry.registry import (  # noqa: PLC0415 - needs pluggy
            PluginRegistry,
        )

        check = partial(_imported_row, PluginRegistry(project, hookspecs))
    lost: dict[str | None, list[PluginRow]] = {}
    by_group = {kind.group: kind for kind in kinds}
    for plugin, meant in astray(tuple(by_group)):
        kind = None if meant is None else by_group[meant]
        lost.setdefault(meant, []).append(_lost_row(plugin, kind, kinds))
    rows: list[PluginRow] = []
    for kind in kinds:
        usable = installed(kind.group)
        names = Counter(plugin.name for plugin in usable)
        for plugin in all_installed(kind.group):
            if plugin not in usable:
                state = f"it is denied ({PLUGINS_VARIABLE})"
                rows.append(_row(kind.name, plugin, state))
            elif names[plugin.name] > 1:
                rows.append(_claimed_row(kind, plugin, usable))
            else:
                rows.append(check(kind, plugin))
        rows += lost.pop(kind.group, ())
    return (*rows, *lost.pop(None, ()))


def _lost_row(
    plugin: InstalledPlugin, kind: "PluginKind | None", kinds: Sequence["PluginKind"]
) -> PluginRow:
    place = declared_at(plugin, plugin.group)
    if kind is not None:
        state = f"its group is misspelt: {plugin.group!r} instead of {kind.group!r}"
        return _row(kind.name, plugin, state + place)
    groups = (each.group for each in kinds)
    return _row("none", plugin, unknown("group", plugin.group, groups) + place)


def _claimed_row(
    kind: "PluginKind", plugin: InstalledPlugin, usable: Sequence[InstalledPlugin]
) -> PluginRow:
    sources = [each.source for each in usable if each.name == plugin.name]
    error = DuplicatePluginError(kind.group, plugin.name, sources)
    return _row(kind.name, plugin, str(error))


def _declared_row(
    project: str, kind: "PluginKind", plugin: InstalledPlugin
) -> PluginRow:
    return _row(kind.name, plugin, unmet(project, plugin) or OK)


def _imported_row(
    registry: "PluginRegistry", kind: "PluginKind", plugin: InstalledPlugin
) -> PluginRow:
    try:
        hooks = registry.hooks_of(registry.load(kind, plugin.name))
    except RegistryError as error:
        return _row(kind.name, plugin, str(error))
    return _row(kind.name, plugin, OK, hooks)


def _row(
    kind: str, plugin: InstalledPlugin, state: str, hooks: tuple[str, ...] = ()
) -> PluginRow:
    return PluginRow(
        name=plugin.name,
        kind=kind,
        distribution=plugin.distribution,
        version=plugin.version,
        hooks=hooks,
        state=state,
    )
