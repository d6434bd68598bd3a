"""Observers `sample`: has the stat loggers in this process.

A front end asks the entry point `process` with `--observer-process`. To take its place,
rename this entry point and remove hookline-observer.
"""

from hookline import hookimpl
from hookline.frontend.observation import Observers
from hookline.frontend.observing import ObserverContext


class SampleObservers(Observers):
    """Tells the loggers what happens; override what is to be done elsewhere."""


@hookimpl
def create_observers(context: ObserverContext) -> SampleObservers:
    """Returns what is told of engines, steps and requests."""
    return SampleObservers(context.config)
