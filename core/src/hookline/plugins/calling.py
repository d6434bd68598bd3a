"""Calls a hook of the plugin that a configuration names, and of no other."""

from collections.abc import Callable
from functools import cache

from hookline import hookspecs
from hookline.exceptions import ConfigError, HooklineError
from hookline_registry import (
    BrokenPluginError,
    PluginKind,
    PluginRegistry,
    RegistryError,
)


@cache
def process_plugins() -> PluginRegistry:
    """Returns the plugins of this process, all but its loggers.

    Each front end has a registry of its loggers, because two front ends in one process
    must not hear one another's events.
    """
    return PluginRegistry("hookline", hookspecs)


def find_hook(kind: PluginKind, name: str, hook: str) -> Callable[..., object] | None:
    """Imports a plugin and returns what calls a hook; None if it lacks the hook.

    Raises:
        RegistryError: It is unknown, denied or broken.
    """
    plugins = process_plugins()
    return plugins.maker(plugins.load(kind, name), hook)


def hook_of(kind: PluginKind, name: str) -> Callable[..., object]:
    """Imports a plugin and returns what calls the hook of its kind.

    Raises:
        RegistryError: It is unknown, denied or broken, or lacks the hook.
    """
    if (caller := find_hook(kind, name, kind.hook)) is None:
        raise BrokenPluginError(name, f"it has no hook {kind.hook}")
    return caller


def call_plugin(
    kind: PluginKind,
    name: str,
    context: object,
    *,
    option: str,
    hook: str | None = None,
) -> object:
    """Calls a plugin's hook; returns None if the plugin lacks the hook.

    Args:
        kind: The plugin's kind.
        name: Its name.
        context: The hook's argument.
        option: The option that named the plugin, for errors.
        hook: The hook; that of the kind if None.

    Raises:
        ConfigError: The plugin is unknown, denied or broken; `option` is named.
        HooklineError: The plugin raised it; likewise `RegistryError`.
    """
    plugins = process_plugins()
    try:
        plugin = plugins.load(kind, name)
        return plugins.create(plugin, hook or kind.hook, context=context)
    except BrokenPluginError as error:
        if isinstance(error.__cause__, HooklineError | RegistryError):  # the user's
            raise error.__cause__ from None
        raise ConfigError(option, str(error)) from error
    except RegistryError as error:
        raise ConfigError(option, str(error)) from error
