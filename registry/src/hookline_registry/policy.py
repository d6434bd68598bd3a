"""Which installed plugins may be used: what a user allows and denies."""

import os
from dataclasses import dataclass

PLUGINS_VARIABLE = "HOOKLINE_PLUGINS"
"""Names of plugins or distributions, separated by commas; `no:NAME` denies one."""

_DENIED = "no:"
_OWN = frozenset(
    {"hookline-core", "hookline-metrics", "hookline-models", "hookline-server"}
)
"""Distributions that only denying them leaves out, whatever else is allowed."""


@dataclass(frozen=True, slots=True)
class PluginPolicy:
    """The plugins that may be used.

    Attributes:
        allowed: Names of plugins and distributions; None allows all.
        denied: Those that may not be used, even if they are allowed.
    """

    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()

    @classmethod
    def read(cls) -> "PluginPolicy":
        """Reads the environment variable `HOOKLINE_PLUGINS`.

        As with pytest, `no:NAME` denies a plugin. If other names are there, only those
        are allowed; if the variable is empty, none but Hookline's own.
        """
        return _parsed(os.environ.get(PLUGINS_VARIABLE))

    def permits(self, name: str, distribution: str) -> bool:
        """Whether a plugin of a distribution may be used."""
        names = {name, distribution}
        if names & self.denied:
            return False
        if self.allowed is None or distribution in _OWN:
            return True
        return bool(names & self.allowed)


def _parsed(text: str | None) -> PluginPolicy:
    if text is None:
        return PluginPolicy()
    words = [word.strip() for word in text.split(",")]
    allowed = {word for word in words if word and not word.startswith(_DENIED)}
    denied = {word.removeprefix(_DENIED) for word in words if word.startswith(_DENIED)}
    only_denies = bool(denied) and not allowed
    return PluginPolicy(None if only_denies else frozenset(allowed), frozenset(denied))
