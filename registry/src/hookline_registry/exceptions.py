"""The errors that finding, loading and calling plugins can raise."""

from collections.abc import Sequence


class RegistryError(Exception):
    """Base class of the errors of this package."""


class UnknownPluginError(RegistryError):
    """No installed plugin has that name.

    Attributes:
        group: The entry-point group that was searched.
        name: Name that was not found.
        installed: Names of the installed plugins.
    """

    def __init__(
        self, group: str, name: str, installed: Sequence[str], hint: str = ""
    ) -> None:
        there = ", ".join(installed) or "none"
        super().__init__(f"no plugin {name!r} in {group}; installed: {there}{hint}")
        self.group = group
        self.name = name
        self.installed = tuple(installed)


class BrokenPluginError(RegistryError):
    """A plugin that cannot be imported, does not fit the hooks, or failed in a call.

    Attributes:
        plugin: Name or path of the plugin.
        reason: Description of the fault; the original error is the `__cause__`.
        distribution: Name and version of its distribution, if known.
    """

    def __init__(
        self, plugin: str, reason: str, *, distribution: str | None = None
    ) -> None:
        source = f" of {distribution}" if distribution else ""
        super().__init__(f"plugin {plugin!r}{source} is broken: {reason}")
        self.plugin = plugin
        self.reason = reason
        self.distribution = distribution


class DuplicatePluginError(RegistryError):
    """Several distributions have a plugin of the same name.

    Attributes:
        group: The entry-point group.
        name: The name.
        distributions: Name and version of each distribution with the name.
    """

    def __init__(self, group: str, name: str, distributions: Sequence[str]) -> None:
        super().__init__(
            f"plugin {name!r} in {group} is claimed by {' and '.join(distributions)}; "
            f"uninstall all but one"
        )
        self.group = group
        self.name = name
        self.distributions = tuple(distributions)
