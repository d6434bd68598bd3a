"""Looks for what is wrong with the installed plugins, without using any of them."""

import typing
from collections.abc import Iterable
from dataclasses import dataclass

from hookline import hookspecs
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
from hookline_server.cli.plugin_kinds import KINDS

LOGGER_FACTORY = "create_stat_logger"
OK = "ok"

_MARK = "hookline_impl"
"""What the marker `hookimpl` leaves on a function."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How a plugin fares.

    Attributes:
        row: What is installed.
        problem: None where there is none.
    """

    row: PluginRow
    problem: str | None


def check_plugins() -> list[Finding]:
    """Imports each plugin and holds its hooks against the specifications."""
    rows = list_plugins("hookline", hookspecs, KINDS)
    return [Finding(row, _problem(row)) for row in rows]


def _problem(row: PluginRow) -> str | None:
    if row.state != OK:
        return row.state
    if LOGGER_FACTORY not in row.hooks:
        return None
    # What is only made when the logger is chosen has hooks too.
    registry = PluginRegistry("hookline", hookspecs)
    for number, made in enumerate(_made_by(row)):
        try:
            registry.register(made, f"{row.name}.logger{number}")
        except RegistryError as error:
            return str(error)
    return None


def _made_by(row: PluginRow) -> Iterable[type]:
    """The classes that the plugin says its factory returns, if they have hooks."""
    group = next(kind.group for kind in KINDS if kind.name == row.kind)
    for plugin in installed(group):
        if plugin.name != row.name:
            continue
        factory = getattr(import_plugin(plugin), LOGGER_FACTORY)
        hints = isolate(typing.get_type_hints, factory)
        if isinstance(hints, Failure):  # types that are there for checkers only
            continue
        told = hints.get("return")
        yield from (each for each in _classes(told) if _has_hooks(each))


def _classes(told: object) -> Iterable[type]:
    for each in (told, *typing.get_args(told)):
        if isinstance(each, type):
            yield each


def _has_hooks(made: type) -> bool:
    return any(hasattr(getattr(made, name, None), _MARK) for name in dir(made))
