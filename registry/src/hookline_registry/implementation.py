"""One plugin's hooks, checked against the specifications and ready to be called."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

import pluggy


class Implementation:
    """A plugin in its own plugin manager, so that calls reach no other plugin.

    Attributes:
        callers: Callers of the hooks that it implements, by hook name.
    """

    def __init__(self, project: str, hookspecs: ModuleType, plugin: object) -> None:
        """Reads the plugin's hooks.

        Raises:
            pluggy.PluginValidationError: It does not fit the specifications.
        """
        manager = pluggy.PluginManager(project)
        manager.add_hookspecs(hookspecs)
        self._known = _hook_names(manager)
        manager.register(plugin, name="plugin")
        callers = manager.get_hookcallers(plugin) or []
        for caller in callers:
            self._check(plugin, caller)
        self._refuse_unmarked(plugin, {caller.name for caller in callers})
        self.callers: Mapping[str, Callable[..., object]] = {
            caller.name: caller
            for caller in sorted(callers, key=lambda caller: caller.name)
            if caller.has_spec()
        }
        if not self.callers:
            raise pluggy.PluginValidationError(
                plugin, f"it implements no hook of {project}"
            )

    def _check(self, plugin: object, caller: pluggy.HookCaller) -> None:
        for implementation in caller.get_hookimpls():
            if not caller.has_spec() and not implementation.optionalhook:
                raise pluggy.PluginValidationError(plugin, self._unknown(caller.name))
            if inspect.iscoroutinefunction(implementation.function):
                raise pluggy.PluginValidationError(
                    plugin,
                    f"hook {caller.name!r} is a coroutine; hooks are plain functions",
                )

    def _refuse_unmarked(self, plugin: object, marked: set[str]) -> None:
        """Raises an error for a function with a hook's name but without the marker."""
        if not marked:
            return  # the error is that it has no hooks at all
        for hook in self._known:
            if hook not in marked and _has_function(plugin, hook):
                raise pluggy.PluginValidationError(
                    plugin, f"{hook!r} has a hook's name and lacks the marker @hookimpl"
                )

    def _unknown(self, hook: str) -> str:
        close = difflib.get_close_matches(hook, self._known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"there is no hook {hook!r}{hint}"


def _has_function(plugin: object, name: str) -> bool:
    """Whether a module defines a function, or an object's class a method."""
    if isinstance(plugin, ModuleType):
        found = vars(plugin).get(name)
        return inspect.isfunction(found) and found.__module__ == plugin.__name__
    owner = plugin if isinstance(plugin, type) else type(plugin)
    return inspect.isfunction(inspect.getattr_static(owner, name, None))


def _hook_names(manager: pluggy.PluginManager) -> list[str]:
    return [name for name in vars(manager.hook) if not name.startswith("_")]
