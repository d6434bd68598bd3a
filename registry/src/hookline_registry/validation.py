"""Checks a plugin against the hook specifications before it is registered."""

import inspect
from types import ModuleType

import pluggy

from hookline_registry.spelling import closest


def validate(project: str, hookspecs: ModuleType, plugin: object) -> None:
    """Reads a plugin's hooks in a plugin manager of its own, so that others are safe.

    Raises:
        pluggy.PluginValidationError: It does not fit the specifications.
    """
    manager = pluggy.PluginManager(project)
    manager.add_hookspecs(hookspecs)
    known = hook_names(manager)
    manager.register(plugin, name="plugin")
    callers = manager.get_hookcallers(plugin) or []
    for caller in callers:
        _check(plugin, caller, known)
    _refuse_unmarked(plugin, {caller.name for caller in callers}, known)
    manager.check_pending()
    if not any(caller.has_spec() for caller in callers):
        reason = f"it implements no hook of {project}"
        raise pluggy.PluginValidationError(plugin, reason)


def hook_names(manager: pluggy.PluginManager) -> list[str]:
    """Returns the names of all specified hooks."""
    return [name for name in vars(manager.hook) if not name.startswith("_")]


def _check(plugin: object, caller: pluggy.HookCaller, known: list[str]) -> None:
    for implementation in caller.get_hookimpls():
        if not caller.has_spec() and not implementation.optionalhook:
            reason = _unknown(caller.name, known)
            raise pluggy.PluginValidationError(plugin, reason)
        if inspect.iscoroutinefunction(implementation.function):
            raise pluggy.PluginValidationError(
                plugin,
                f"hook {caller.name!r} is a coroutine; hooks are plain functions",
            )


def _refuse_unmarked(plugin: object, marked: set[str], known: list[str]) -> None:
    """Raises an error for a function with a hook's name but without the marker."""
    if not marked:
        return  # the error is that it has no hooks at all
    for hook in known:
        if hook not in marked and _has_function(plugin, hook):
            raise pluggy.PluginValidationError(
                plugin, f"{hook!r} has a hook's name and lacks the marker @hookimpl"
            )


def _unknown(hook: str, known: list[str]) -> str:
    close = closest(hook, known)
    hint = f"; did you mean {close!r}?" if close else ""
    return f"there is no hook {hook!r}{hint}"


def _has_function(plugin: object, name: str) -> bool:
    """Whether a module defines a function, or an object's class a method."""
    if isinstance(plugin, ModuleType):
        found = vars(plugin).get(name)
        return inspect.isfunction(found) and found.__module__ == plugin.__name__
    owner = plugin if isinstance(plugin, type) else type(plugin)
    return inspect.isfunction(inspect.getattr_static(owner, name, None))
