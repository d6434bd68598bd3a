"""Imports the objects of entry points; errors name the distribution and the cause."""

from importlib.metadata import EntryPoint

from hookline_registry.discovery import InstalledPlugin
from hookline_registry.exceptions import BrokenPluginError
from hookline_registry.isolation import Failure, isolate


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
