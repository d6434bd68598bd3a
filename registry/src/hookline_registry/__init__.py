"""Finds, selects, isolates and lists plugins; independent of the engine."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who isolates a call needs no discovery, and no pluggy
    from hookline_registry.breaker import Breaker, BreakerState
    from hookline_registry.discovery import InstalledPlugin, all_installed, installed
    from hookline_registry.exceptions import (
        BrokenPluginError,
        DuplicatePluginError,
        RegistryError,
        UnknownPluginError,
    )
    from hookline_registry.failure_log import FailureLog
    from hookline_registry.fanout import Fanout
    from hookline_registry.group import as_one
    from hookline_registry.guard import PluginGuard
    from hookline_registry.isolation import Failure, isolate
    from hookline_registry.kind import PluginKind
    from hookline_registry.lane import Around, Lane, LaneStats, Notice
    from hookline_registry.listing import PluginRow, list_plugins
    from hookline_registry.policy import PLUGINS_VARIABLE, PluginPolicy
    from hookline_registry.registry import PluginRegistry

__all__ = [
    "PLUGINS_VARIABLE",
    "Around",
    "Breaker",
    "BreakerState",
    "BrokenPluginError",
    "DuplicatePluginError",
    "Failure",
    "FailureLog",
    "Fanout",
    "InstalledPlugin",
    "Lane",
    "LaneStats",
    "Notice",
    "PluginGuard",
    "PluginKind",
    "PluginPolicy",
    "PluginRegistry",
    "PluginRow",
    "RegistryError",
    "UnknownPluginError",
    "all_installed",
    "as_one",
    "installed",
    "isolate",
    "list_plugins",
]

_MODULES = {
    "Around": "lane",
    "Breaker": "breaker",
    "BreakerState": "breaker",
    "BrokenPluginError": "exceptions",
    "DuplicatePluginError": "exceptions",
    "Failure": "isolation",
    "FailureLog": "failure_log",
    "Fanout": "fanout",
    "InstalledPlugin": "discovery",
    "Lane": "lane",
    "LaneStats": "lane",
    "Notice": "lane",
    "PLUGINS_VARIABLE": "policy",
    "PluginGuard": "guard",
    "PluginKind": "kind",
    "PluginPolicy": "policy",
    "PluginRegistry": "registry",
    "PluginRow": "listing",
    "RegistryError": "exceptions",
    "UnknownPluginError": "exceptions",
    "all_installed": "discovery",
    "installed": "discovery",
    "as_one": "group",
    "isolate": "isolation",
    "list_plugins": "listing",
}


def __getattr__(name: str) -> object:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
