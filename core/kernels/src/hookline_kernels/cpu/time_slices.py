"""Asks Linux for short time slices for a thread.

Source: `sched_setattr(2)`; Linux honours the request from 6.12 on.
"""

import ctypes
import platform

SLICE_NS = 500_000
"""Nanoseconds that a thread may run before another one gets its core.

Threads share cores evenly whatever their slices. One with a short slice gets a core
back sooner after it slept, and forfeits less by `sched_yield`, which costs a slice.
"""

_NUMBERS = {"x86_64": (315, 314), "aarch64": (275, 274)}
"""Numbers of the calls `sched_getattr` and `sched_setattr`."""
_SCHED_OTHER = 0


class _Attributes(ctypes.Structure):
    """Linux's `struct sched_attr`, first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def take_short_slices() -> bool:
    """Asks for slices of `SLICE_NS` for the calling thread, which keeps its priority.

    Returns whether Linux accepted that; other schedulers and systems have no slices.
    """
    numbers = _NUMBERS.get(platform.machine())
    if platform.system() != "Linux" or numbers is None:
        return False
    get, set_ = numbers
    call = ctypes.CDLL(None).syscall
    attributes = _Attributes()
    place, size = ctypes.byref(attributes), ctypes.sizeof(attributes)
    if call(get, 0, place, size, 0) or attributes.policy != _SCHED_OTHER:
        return False
    attributes.runtime = SLICE_NS
    refused: int = call(set_, 0, place, 0)
    return refused == 0
