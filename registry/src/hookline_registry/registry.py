"""Loads the plugins that were chosen, and calls one of them at a time."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from hookline_registry.discovery import InstalledPlugin, find
from hookline_registry.exceptions import BrokenPluginError, RegistryError
from hookline_registry.implementation import Implementation
from hookline_registry.isolation import Failure, isolate
from hookline_registry.loading import import_plugin, import_value


class PluginRegistry:
    """The plugins of one engine: only what was named is imported.

    Attributes:
        names: The names under which plugins are registered, in order.
    """

    def __init__(self, project: str, hookspecs: ModuleType) -> None:
        self._project = project
        self._hookspecs = hookspecs
        self._plugins: dict[str, Implementation] = {}
        self._sources: dict[str, InstalledPlugin] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._plugins)

    def load(self, group: str, name: str) -> str:
        """Imports an installed plugin and registers it, once however often called.

        Returns:
            What it is registered as: its name, or group and name where another group's
            plugin has the name already.

        Raises:
            RegistryError: It is unknown, claimed twice or broken.
        """
        plugin = find(group, name)
        registered = name
        if self._sources.get(name, plugin) != plugin:
            registered = f"{group}:{name}"
        if self._sources.get(registered) != plugin:
            self._add(import_plugin(plugin), registered, source=plugin.source)
            self._sources[registered] = plugin
        return registered

    def load_path(self, path: str, make: Callable[[type], object]) -> str:
        """Imports a class by `module:Class` and registers what `make` makes of it.

        Returns:
            What it is registered as: the path.

        Raises:
            BrokenPluginError: It is no such path, no class, or cannot be made.
        """
        if path in self._plugins:
            return path
        module, colon, attribute = path.partition(":")
        if not (module and colon and attribute):
            raise BrokenPluginError(path, "a path has the form module:Class")
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
            BrokenPluginError: It does not fit the hooks.
            RegistryError: The name is taken.
        """
        self._add(plugin, name)

    def hooks_of(self, plugin_name: str) -> tuple[str, ...]:
        """The hooks that a registered plugin implements, sorted."""
        return tuple(self._plugin(plugin_name).callers)

    def create(
        self, plugin_name: str, hook: str, /, **arguments: object
    ) -> object | None:
        """Asks one plugin's factory hook for its object.

        Returns:
            The object; None if the plugin has no such hook or declines.

        Raises:
            BrokenPluginError: The hook raised, or returned a class.
        """
        made = self.call_one(plugin_name, hook, **arguments)
        if isinstance(made, type):
            reason = f"{hook} returned the class {made.__name__}, not an instance of it"
            raise self._broken(plugin_name, reason)
        return made

    def call_one(self, plugin_name: str, hook: str, /, **arguments: object) -> object:
        """Calls one plugin's hook here and now, outside of any lane.

        Returns:
            As the hook is specified: its first result, or a list; None if the plugin
            has no such hook.

        Raises:
            BrokenPluginError: The hook raised.
        """
        caller = self._plugin(plugin_name).callers.get(hook)
        if caller is None:
            return None
        outcome = isolate(caller, **arguments)
        if isinstance(outcome, Failure):
            reason = f"{hook}: {outcome.summary}"
            raise self._broken(plugin_name, reason) from outcome.error
        return outcome

    def _broken(self, plugin_name: str, reason: str) -> BrokenPluginError:
        source = self._sources.get(plugin_name)
        distribution = source.source if source else None
        return BrokenPluginError(plugin_name, reason, distribution=distribution)

    def callers(
        self, plugin_names: Sequence[str]
    ) -> Mapping[str, tuple[Callable[..., object], ...]]:
        """For each hook what calls it in these plugins, in their order."""
        callers: dict[str, tuple[Callable[..., object], ...]] = {}
        for name in plugin_names:
            for hook, caller in self._plugin(name).callers.items():
                callers[hook] = (*callers.get(hook, ()), caller)
        return callers

    def _plugin(self, name: str) -> Implementation:
        if name not in self._plugins:
            raise RegistryError(f"no plugin is registered as {name!r}")
        return self._plugins[name]

    def _add(self, plugin: object, name: str, *, source: str | None = None) -> None:
        if name in self._plugins:
            raise RegistryError(f"a plugin is registered as {name!r} already")
        outcome = isolate(Implementation, self._project, self._hookspecs, plugin)
        if isinstance(outcome, Failure):
            raise BrokenPluginError(
                name, outcome.summary, distribution=source
            ) from outcome.error
        self._plugins[name] = outcome
