"""Finds, selects, isolates and lists plugins; independent of the engine."""

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
from hookline_registry.guard import PluginGuard
from hookline_registry.isolation import Failure, isolate
from hookline_registry.kind import PluginKind
from hookline_registry.lane import Lane, LaneStats, Notice
from hookline_registry.listing import PluginRow, list_plugins
from hookline_registry.policy import VARIABLE as PLUGINS_VARIABLE
from hookline_registry.policy import PluginPolicy
from hookline_registry.registry import PluginRegistry

__all__ = [
    "PLUGINS_VARIABLE",
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
    "installed",
    "isolate",
    "list_plugins",
]
