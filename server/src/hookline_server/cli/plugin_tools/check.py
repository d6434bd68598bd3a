"""Checks the installed plugins without using them."""

import typing
from collections.abc import Iterable
from dataclasses import dataclass

from hookline import hookspecs
from hookline.plugins.kinds import KINDS
from hookline_registry import (
    Failure,
    PluginRegistry,
    PluginRow,
    RegistryError,
    installed,
    isolate,
    list_plugins,
)
from hookline_registry.loading import import_plugin

LOGGER_FACTORY = "create_stat_logger"
OK = "ok"

_MARK = "hookline_impl"
"""Attribute that the marker `hookimpl` sets on a function."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one plugin.

    Attributes:
        row: The installed plugin.
        problem: Description of the problem, or None.
    """

    row: PluginRow
    problem: str | None


def check_plugins() -> list[Finding]:
    """Imports each plugin and checks its hooks against the specifications."""
    rows = list_plugins("hookline", hookspecs, KINDS)
    return [Finding(row, _problem(row)) for row in rows]


def _problem(row: PluginRow) -> str | None:
    if row.state != OK:
        return row.state
    if LOGGER_FACTORY not in row.hooks:
        return None
    # The object that the factory makes has hooks, too.
    registry = PluginRegistry("hookline", hookspecs)
    for number, made in enumerate(_made_by(row)):
        try:
            registry.register(made, f"{row.name}.logger{number}")
        except RegistryError as error:
            return str(error)
    return None


def _made_by(row: PluginRow) -> Iterable[type]:
    """Yields the classes in the factory's return annotation that have hooks."""
    group = next(kind.group for kind in KINDS if kind.name == row.kind)
    for plugin in installed(group):
        if plugin.name != row.name:
            continue
        factory = getattr(import_plugin(plugin), LOGGER_FACTORY)
        hints = isolate(typing.get_type_hints, factory)
        if isinstance(hints, Failure):  # types that exist for checkers only
            continue
        annotation = hints.get("return")
        yield from (each for each in _classes(annotation) if _has_hooks(each))


def _classes(annotation: object) -> Iterable[type]:
    for each in (annotation, *typing.get_args(annotation)):
        if isinstance(each, type):
            yield each


def _has_hooks(made: type) -> bool:
    return any(hasattr(getattr(made, name, None), _MARK) for name in dir(made))
