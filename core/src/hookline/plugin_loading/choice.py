"""Calls a factory hook of the plugin that a configuration names."""

from hookline import hookspecs
from hookline.exceptions import ConfigError, HooklineError
from hookline_registry import BrokenPluginError, PluginRegistry, RegistryError


def call_plugin(
    group: str, name: str, hook: str, context: object, *, option: str
) -> object:
    """Calls a plugin's hook; returns None if the plugin lacks the hook.

    Raises:
        ConfigError: The plugin is unknown or broken; `option` is named.
        HooklineError: The plugin raised it; likewise `RegistryError`.
    """
    registry = PluginRegistry("hookline", hookspecs)
    try:
        plugin = registry.load(group, name)
        return registry.create(plugin, hook, context=context)
    except BrokenPluginError as error:
        if isinstance(error.__cause__, HooklineError | RegistryError):  # the user's
            raise error.__cause__ from None
        raise ConfigError(option, str(error)) from error
    except RegistryError as error:
        raise ConfigError(option, str(error)) from error
