"""Connects a front end to an observer process, which it starts if there is none."""

from hookline import hookimpl
from hookline.frontend.observing import ObserverContext
from hookline_observer.owner import ObserverProcess
from hookline_observer.remote_observers import RemoteObservers


@hookimpl
def create_observers(context: ObserverContext) -> RemoteObservers:
    """Returns a connection; it ends a process that it has started with itself.

    Raises:
        ConfigError: An option of a logger is wrong, or the process did not start.
        ObserverSilentError: The process at the address does not answer.
        RegistryError: A logger is unknown or broken.
    """
    if context.address is not None:
        return RemoteObservers(context.config, context.address)
    process = ObserverProcess(context.config, pages=context.pages)
    try:
        return RemoteObservers(context.config, process.address(), process=process)
    except BaseException:
        process.close()
        raise
