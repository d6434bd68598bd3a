"""Asks the one plugin that a configuration names for its object; imports no other."""

from hookline import hookspecs
from hookline.exceptions import ConfigError, HooklineError
from hookline_registry import BrokenPluginError, PluginRegistry, RegistryError


def ask_plugin(
    group: str, name: str, hook: str, context: object, *, option: str
) -> object:
    """What a plugin answers to a hook; None if it does not have it.

    Raises:
        ConfigError: It is unknown or broken, of `option`.
        HooklineError: Whatever of these it raised itself.
    """
    registry = PluginRegistry("hookline", hookspecs)
    try:
        plugin = registry.load(group, name)
        return registry.create(plugin, hook, context=context)
    except BrokenPluginError as error:
        if isinstance(error.__cause__, HooklineError):  # the user's mistake
            raise error.__cause__ from None
        raise ConfigError(option, str(error)) from error
    except RegistryError as error:
        raise ConfigError(option, str(error)) from error
