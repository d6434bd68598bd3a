"""Loads the loggers of a front end: in this process, or in an observer process."""

from collections.abc import Callable
from typing import cast

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.frontend.observing import Observing
from hookline.observer_context import ObserverAddress, ObserverContext
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import OBSERVERS
from hookline_registry import installed

_PLUGIN = "process"
_OPTION = "observer-process"

Observe = Callable[[EngineConfig, object | None], Observing]
"""Loads the loggers; its second argument gets the same payloads, without a lane."""


def observe(
    config: EngineConfig, recorder: object | None = None, *, pages: str = ""
) -> Observing:
    """Loads the loggers, in this process or in an observer process.

    Args:
        config: The engine's configuration.
        recorder: Gets the same payloads as the loggers, without a lane.
        pages: `module:attribute` of what serves the loggers' pages in an observer
            process.

    Raises:
        ConfigError: An option does not fit, a recorder wants an observer process, or no
            plugin provides one.
        RegistryError: A logger is unknown or broken.
    """
    if not config.observers.observer_process:
        return Observers(config, recorder)
    if recorder is not None:
        raise ConfigError(
            _OPTION, "is for servers; LLM keeps its loggers in its process"
        )
    return _connect(ObserverContext(config=config, pages=pages))


def observe_at(address: ObserverAddress) -> Observe:
    """Returns what connects to an observer process that another front end owns.

    One of several front ends of the same engines passes it to `AsyncEngine.start`.
    """

    def join(config: EngineConfig, _: object | None = None) -> Observing:
        return _connect(ObserverContext(config=config, address=address))

    return join


def _connect(context: ObserverContext) -> Observing:
    if not installed(OBSERVERS.group):
        raise ConfigError(_OPTION, "needs the distribution hookline-observer")
    connected = call_plugin(OBSERVERS, _PLUGIN, context, option=_OPTION)
    if connected is None:
        raise ConfigError(_OPTION, f"the plugin {_PLUGIN!r} connected no observers")
    return cast("Observing", connected)
