"""What a started engine keeps in memory, set apart from what comes and goes."""

import atexit
import gc
from functools import cache

from hookline_kernels.runtime.allocator import return_freed_memory


def freeze_gc() -> None:
    """Ends a start: collections need not look again at what is there now.

    What the start has freed, such as the buffers of the largest steps, goes back to
    the system.
    """
    gc.collect()
    gc.freeze()
    _unfreeze_at_exit()
    return_freed_memory()


def unfreeze_gc() -> None:
    """Ends an engine: collections look at what it leaves behind."""
    gc.unfreeze()


@cache
def _unfreeze_at_exit() -> None:
    """Lets the interpreter take everything apart when it ends, once a process.

    Libraries would otherwise report what they find in use as leaks.
    """
    atexit.register(gc.unfreeze)
