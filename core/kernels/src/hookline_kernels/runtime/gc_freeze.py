"""What a started engine keeps in memory, set apart from what comes and goes."""

import atexit
import gc
from functools import cache

from hookline_kernels.runtime.allocator import return_freed_memory

YOUNG_OBJECTS = 20_000
"""So many new objects let a collection begin.

They are more than the open requests of a busy server have, which end by themselves: at
Python's 700, collections looked at each of them, and found next to nothing.
"""
_threshold: list[tuple[int, int, int]] = []


def freeze_gc() -> None:
    """Ends a start: collections are rare, and need not look again at what is there now.

    What the start has freed, such as the buffers of the largest steps, goes back to
    the system.
    """
    gc.collect()
    gc.freeze()
    young, *older = usual = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS:  # 0 is off, and stays so
        _threshold.append(usual)
        gc.set_threshold(YOUNG_OBJECTS, *older)
    _unfreeze_at_exit()
    return_freed_memory()


def unfreeze_gc() -> None:
    """Ends an engine: collections look at what it leaves behind, as often as before."""
    gc.unfreeze()
    if _threshold and gc.get_threshold()[0] == YOUNG_OBJECTS:  # nobody has changed it
        gc.set_threshold(*_threshold.pop())


@cache
def _unfreeze_at_exit() -> None:
    """Lets the interpreter take everything apart when it ends, once a process.

    Libraries would otherwise report what they find in use as leaks.
    """
    atexit.register(gc.unfreeze)
