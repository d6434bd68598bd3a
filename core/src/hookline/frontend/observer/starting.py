"""Starts the loggers of a front end where the configuration wants them."""

from collections.abc import Callable

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.frontend.observer.link import ObserverAddress
from hookline.frontend.observer.owner import MODULE, ObserverProcess
from hookline.frontend.observer.remote_observers import RemoteObservers
from hookline.frontend.observing import Observing
from hookline.metrics import Recorder

Observe = Callable[[EngineConfig, Recorder | None], Observing]


def observe(
    config: EngineConfig, recorder: Recorder | None = None, *, module: str = MODULE
) -> Observing:
    """Loads the loggers, in this process or in an observer process.

    Args:
        config: The engine's configuration.
        recorder: Gets the same payloads as the loggers, without a lane.
        module: What an observer process runs.

    Raises:
        ConfigError: An option does not fit, or a recorder wants an observer process.
        RegistryError: A logger is unknown or broken.
    """
    if not config.observers.observer_process:
        return Observers(config, recorder)
    if recorder is not None:
        raise ConfigError(
            "observer-process", "is for servers; LLM keeps its loggers in its process"
        )
    process = ObserverProcess(config, module=module)
    try:
        return RemoteObservers(config, process.address(), process=process)
    except BaseException:
        process.close()
        raise


def observe_at(address: ObserverAddress) -> Observe:
    """Returns what tells the loggers of an observer process that somebody else owns.

    One of several front ends of the same engines passes it to `AsyncEngine.start`.
    """

    def join(config: EngineConfig, _: Recorder | None = None) -> RemoteObservers:
        return RemoteObservers(config, address)

    return join
