"""Statistics made of engine events: state, steps and finished requests."""

import warnings
from importlib import import_module

from hookline.moved_modules import moved_name

_MODULES = (
    "finished_request",
    "iteration_stats",
    "prefix_cache",
    "scheduler_stats",
    "step_work",
)


def __getattr__(name: str) -> object:
    """Finds what could be imported from here, for one more release."""
    for module in () if name.startswith("_") else _MODULES:
        found = vars(import_module(f"{__name__}.{module}"))
        if name in found and found[name].__class__.__module__ != "typing":
            warnings.warn(
                f"{name} has moved to {__name__}.{module}; {__name__} will not have "
                "it with the next release",
                DeprecationWarning,
                stacklevel=2,
            )
            return found[name]
    return moved_name(__name__, name)
