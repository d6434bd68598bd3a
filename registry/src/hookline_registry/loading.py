"""Imports the objects of entry points; errors name the distribution and the cause."""

from collections.abc import Callable
from importlib.metadata import EntryPoint

from hookline_registry.discovery import InstalledPlugin, find
from hookline_registry.exceptions import BrokenPluginError
from hookline_registry.isolation import Failure, isolate


def load_entry_point(group: str, name: str) -> Callable[..., object]:
    """Imports the factory that an entry point names, without registering it.

    Raises:
        RegistryError: It is unknown, ambiguous, not importable or not callable.
    """
    plugin = find(group, name)
    factory = import_plugin(plugin)
    if not callable(factory):
        reason = f"{plugin.value!r} is not callable"
        raise BrokenPluginError(name, reason, distribution=plugin.source)
    return factory


def load_value(group: str, name: str) -> object:
    """Imports the object that an entry point names, without registering it.

    Raises:
        RegistryError: It is unknown, ambiguous or not importable.
    """
    return import_plugin(find(group, name))


def import_plugin(plugin: InstalledPlugin) -> object:
    """Imports the object of the plugin's entry point.

    Raises:
        BrokenPluginError: It cannot be imported.
    """
    return import_value(plugin.name, plugin.value, source=plugin.source)


def import_value(name: str, value: str, *, source: str | None = None) -> object:
    """Imports `module` or `module:attribute` for the plugin of that name.

    Raises:
        BrokenPluginError: It cannot be imported.
    """
    outcome = isolate(lambda: EntryPoint(name, value, group="").load())
    if isinstance(outcome, Failure):
        raise BrokenPluginError(
            name, f"cannot import {value!r}: {outcome.summary}", distribution=source
        ) from outcome.error
    return outcome
