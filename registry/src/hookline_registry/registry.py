"""Loads the chosen plugins, and calls one of them at a time."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from hookline_registry.discovery import InstalledPlugin, find
from hookline_registry.exceptions import BrokenPluginError, RegistryError
from hookline_registry.implementation import Implementation
from hookline_registry.isolation import Failure, isolate
from hookline_registry.loading import import_plugin, import_value


class PluginRegistry:
    """The plugins of one engine; only named plugins are imported.

    Attributes:
        names: Names of the registered plugins, in order.
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
        """Imports an installed plugin and registers it, once.

        Returns:
            Its registered name: the plugin's, or group and name if a plugin of another
            group has the name.

        Raises:
            RegistryError: It is unknown, ambiguous or broken.
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
        """Imports `module:Class` and registers the object that `make` creates.

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

    def hooks_of(self, plugin_name: str) -> tuple[str, ...]:
        """Returns the names of the hooks that a plugin implements, sorted."""
        return tuple(self._plugin(plugin_name).callers)

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
        if isinstance(made, type):
            reason = f"{hook} returned the class {made.__name__}, not an instance of it"
            raise self._broken(plugin_name, reason)
        return made

    def call_one(self, plugin_name: str, hook: str, /, **arguments: object) -> object:
        """Calls one plugin's hook in this thread, outside of any lane.

        Returns:
            The first result or a list, as specified; None if the plugin lacks the hook.

        Raises:
            BrokenPluginError: The hook raised.
        """
        caller = self._plugin(plugin_name).callers.get(hook)
        if caller is None:
            return None
        outcome = isolate(caller, **arguments)
        if isinstance(outcome, Failure):
            where = f" ({outcome.place})" if outcome.place else ""
            reason = f"{hook}: {outcome.summary}{where}"
            raise self._broken(plugin_name, reason) from outcome.error
        return outcome

    def _broken(self, plugin_name: str, reason: str) -> BrokenPluginError:
        source = self._sources.get(plugin_name)
        distribution = source.source if source else None
        return BrokenPluginError(plugin_name, reason, distribution=distribution)

    def callers(
        self, plugin_names: Sequence[str]
    ) -> Mapping[str, tuple[Callable[..., object], ...]]:
        """Returns the callers of each hook in these plugins, in their order."""
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
