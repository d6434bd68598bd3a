"""The errors that finding, loading and calling plugins can raise."""

from collections.abc import Sequence


class RegistryError(Exception):
    """Root of every error of this package."""


class UnknownPluginError(RegistryError):
    """No installed plugin has that name.

    Attributes:
        group: The entry-point group that was searched.
        name: What was asked for.
        installed: The names that there are.
    """

    def __init__(self, group: str, name: str, installed: Sequence[str]) -> None:
        there = ", ".join(installed) or "none"
        super().__init__(f"no plugin {name!r} in {group}; installed: {there}")
        self.group = group
        self.name = name
        self.installed = tuple(installed)


class BrokenPluginError(RegistryError):
    """A plugin that cannot be imported, does not fit the hooks, or failed in a call.

    Attributes:
        plugin: Its name, or the path it was asked for by.
        reason: What went wrong; the error itself is the `__cause__`.
        distribution: Name and version of what installed it, where that is known.
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
    """Two distributions claim one name; which is meant cannot be known.

    Attributes:
        group: The entry-point group.
        name: The name.
        distributions: Name and version of each that claims it.
    """

    def __init__(self, group: str, name: str, distributions: Sequence[str]) -> None:
        super().__init__(
            f"plugin {name!r} in {group} is claimed by {' and '.join(distributions)}; "
            f"uninstall all but one"
        )
        self.group = group
        self.name = name
        self.distributions = tuple(distributions)
