"""Loads the chosen plugins into one plugin manager, and calls one of them at a time."""

import threading
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import pluggy

from hookline_registry.declarations import at, line_of, unmet
from hookline_registry.discovery import InstalledPlugin, find
from hookline_registry.exceptions import BrokenPluginError, RegistryError
from hookline_registry.isolation import Failure, isolate
from hookline_registry.kind import BarePlugin, PluginKind, has_hooks
from hookline_registry.loading import (
    import_plugin,
    import_value,
    in_working_directory,
)
from hookline_registry.validation import (
    class_returned,
    makes_class,
    refuse_unmarked,
    returned_class,
    specs_of,
    validate,
)


class PluginRegistry:
    """The plugins in use, in one plugin manager; only named plugins are imported.

    A call reaches the named plugin, and the wrappers that others have put around the
    hook. Loading is safe from several threads.

    Attributes:
        names: Names of the registered plugins, in order.
    """

    def __init__(self, project: str, hookspecs: ModuleType) -> None:
        self._project = project
        self._hookspecs = hookspecs
        self._manager = pluggy.PluginManager(project)
        self._manager.add_hookspecs(hookspecs)
        self._hooks = sorted(specs_of(project, hookspecs))
        self._plugins: dict[str, object] = {}
        self._sources: dict[str, InstalledPlugin] = {}
        self._imported: dict[str, object] = {}
        self._lock = threading.RLock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._plugins)

    def load(self, kind: PluginKind, name: str) -> str:
        """Imports an installed plugin and registers it, once.

        Returns:
            Its registered name: the plugin's, or group and name if a plugin of another
            group has the name.

        Raises:
            RegistryError: It is unknown, ambiguous, denied or broken.
        """
        plugin = find(kind.group, name)
        if (conflict := unmet(self._project, plugin)) is not None:
            raise BrokenPluginError(name, conflict, distribution=plugin.source)
        with self._lock:
            registered = name
            if self._sources.get(name, plugin).group != kind.group:
                registered = f"{kind.group}:{name}"
            imported = import_plugin(plugin)
            is_known = self._sources.get(registered) == plugin
            if is_known and self._imported[registered] is imported:
                return registered
            if registered in self._sources:  # another one was installed since
                self.unregister(registered)
            self._add(
                self._with_hooks(kind, plugin, imported),
                registered,
                source=plugin.source,
            )
            self._sources[registered] = plugin
            self._imported[registered] = imported
        return registered

    def load_path(self, path: str, make: Callable[[type], object]) -> str:
        """Imports `module:Class` and registers the object that `make` creates.

        A module that is not installed may be in the working directory.

        Returns:
            Its registered name: the path.

        Raises:
            BrokenPluginError: The path is invalid, not a class, or `make` fails.
        """
        if path in self._plugins:
            return path
        module, colon, attribute = path.partition(":")
        if not (module and colon and attribute):
            raise BrokenPluginError(path, "a path has the form module:Class")
        with in_working_directory(module):
            found = import_value(path, path)
            if not isinstance(found, type):
                raise BrokenPluginError(path, f"{attribute} is not a class")
            plugin = isolate(make, found)
        if isinstance(plugin, Failure):
            raise BrokenPluginError(path, plugin.summary) from plugin.error
        self._add(plugin, path)
        return path

    def register(self, plugin: object, name: str) -> None:
        """Registers an object that has hook implementations.

        Raises:
            BrokenPluginError: It does not match the hook specifications.
            RegistryError: The name is taken.
        """
        self._add(plugin, name)

    def unregister(self, name: str) -> None:
        """Forgets a plugin; the callers that were made for it still call it."""
        with self._lock:
            plugin = self._plugins.pop(name)
            self._sources.pop(name, None)
            self._imported.pop(name, None)
            if not any(plugin is each for each in self._plugins.values()):
                self._manager.unregister(plugin)

    def plugin(self, name: str) -> object:
        """Returns a registered plugin; raises `RegistryError` if there is none."""
        if name not in self._plugins:
            raise RegistryError(f"no plugin is registered as {name!r}")
        return self._plugins[name]

    def hooks_of(self, plugin_name: str) -> tuple[str, ...]:
        """Returns the names of the hooks that a plugin implements, sorted."""
        plugin = self.plugin(plugin_name)
        return tuple(
            hook
            for hook in self._hooks
            if any(each.plugin is plugin for each in self._caller(hook).get_hookimpls())
        )

    def create(
        self, plugin_name: str, hook: str, /, **arguments: object
    ) -> object | None:
        """Calls a plugin's factory hook.

        Returns:
            The object, or None if the plugin lacks the hook or declines.

        Raises:
            BrokenPluginError: The hook raised, or returned a class.
        """
        made = self.call_one(plugin_name, hook, **arguments)
        self._refuse_class(plugin_name, hook, made)
        return made

    def maker(self, plugin_name: str, hook: str) -> Callable[..., object] | None:
        """Returns what calls one plugin's factory hook, or None if it lacks the hook.

        What it returns is checked as by `create`; what the plugin raises is not caught.
        """
        caller = self.caller(plugin_name, hook)
        if caller is None or makes_class(self._spec(hook)):
            return caller

        def make(**arguments: object) -> object:
            made = caller(**arguments)
            self._refuse_class(plugin_name, hook, made)
            return made

        return make

    def call_one(self, plugin_name: str, hook: str, /, **arguments: object) -> object:
        """Calls one plugin's hook in this thread, outside of any lane.

        Returns:
            The first result or a list, as specified; None if the plugin lacks the hook.

        Raises:
            BrokenPluginError: The hook raised.
        """
        if (caller := self.caller(plugin_name, hook)) is None:
            return None
        outcome = isolate(caller, **arguments)
        if isinstance(outcome, Failure):
            where = f" ({outcome.place})" if outcome.place else ""
            reason = f"{hook}: {outcome.summary}{where}"
            raise self._broken(plugin_name, reason) from outcome.error
        return outcome

    def caller(self, plugin_name: str, hook: str) -> Callable[..., object] | None:
        """Returns what calls one plugin's hook, or None if the plugin lacks it.

        Plugins that are registered later are called, too, if they have the hook: take
        it once all are registered, or for a single call.
        """
        plugin, found = self.plugin(plugin_name), self._caller(hook)
        impls = found.get_hookimpls()
        if not any(each.plugin is plugin for each in impls):
            return None
        wrapping = {id(each.plugin) for each in impls if _wraps(each)}
        others = [
            each.plugin
            for each in impls
            if each.plugin is not plugin and id(each.plugin) not in wrapping
        ]
        return self._manager.subset_hook_caller(hook, others)

    def callers(
        self, plugin_names: Sequence[str]
    ) -> Mapping[str, tuple[Callable[..., object], ...]]:
        """Returns the callers of each hook in these plugins, in their order."""
        callers: dict[str, tuple[Callable[..., object], ...]] = {}
        for name in plugin_names:
            for hook in self.hooks_of(name):
                caller = self.caller(name, hook)
                assert caller is not None
                callers[hook] = (*callers.get(hook, ()), caller)
        return callers

    def _refuse_class(self, plugin_name: str, hook: str, made: object) -> None:
        if isinstance(made, type) and not makes_class(self._spec(hook)):
            function = getattr(self.plugin(plugin_name), hook, None)
            place = line_of(function) if callable(function) else ""
            raise self._broken(plugin_name, class_returned(hook, made, place))

    def _spec(self, hook: str) -> Callable[..., object]:
        spec = self._caller(hook).spec
        assert spec is not None
        return spec.function

    def _broken(self, plugin_name: str, reason: str) -> BrokenPluginError:
        source = self._sources.get(plugin_name)
        distribution = source.source if source else None
        return BrokenPluginError(plugin_name, reason, distribution=distribution)

    def _caller(self, hook: str) -> pluggy.HookCaller:
        found = getattr(self._manager.hook, hook)
        assert isinstance(found, pluggy.HookCaller)
        return found

    def _with_hooks(
        self, kind: PluginKind, plugin: InstalledPlugin, imported: object
    ) -> object:
        """Returns what an entry point names, or what implements its kind's hook by it.

        Raises:
            BrokenPluginError: The kind has factories, and this is none.
        """
        if kind.bare is None or has_hooks(self._project, imported):
            return imported
        made = isolate(self._bare, kind, imported)
        if isinstance(made, Failure):
            raise BrokenPluginError(
                plugin.name, str(made.error), distribution=plugin.source
            ) from made.error
        return made

    def _bare(self, kind: PluginKind, imported: object) -> BarePlugin:
        """Returns what implements the kind's hook; `TypeError` for what cannot."""
        refuse_unmarked(self._project, self._hookspecs, imported)
        if not makes_class(self._spec(kind.hook)):
            if kind.bare == "value" and isinstance(imported, type):
                name = imported.__name__
                raise TypeError(
                    f"its entry point names the class {name}, not an instance of it: "
                    f"name a variable with `{name}(…)`{line_of(imported)}"
                )
            found = returned_class(imported) if callable(imported) else None
            if found is not None:
                raise TypeError(class_returned(kind.hook, found[0], at(*found[1])))
        return BarePlugin(self._project, kind, imported)

    def _add(self, plugin: object, name: str, *, source: str | None = None) -> None:
        with self._lock:
            if name in self._plugins:
                raise RegistryError(f"a plugin is registered as {name!r} already")
            outcome = isolate(validate, self._project, self._hookspecs, plugin)
            if isinstance(outcome, Failure):
                error = outcome.error
                is_told = isinstance(error, pluggy.PluginValidationError)
                reason = str(error) if is_told else outcome.summary
                raise BrokenPluginError(name, reason, distribution=source) from error
            if not self._manager.is_registered(plugin):  # under another name
                self._manager.register(plugin, name)
            self._plugins[name] = plugin


def _wraps(implementation: pluggy.HookImpl) -> bool:
    return implementation.wrapper or implementation.hookwrapper
