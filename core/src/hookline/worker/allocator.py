"""Keeps the C allocator from handing memory back between the layers of a model."""

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_MMAP_THRESHOLD = 32 * 1024 * 1024
"""What glibc accepts at most (half of HEAP_MAX_SIZE on 64 bits)."""
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Lets freed memory be used again instead of returning it to the system.

    A forward pass frees and takes buffers of megabytes many times a layer. glibc gets
    each from the system anew and pays for every page of it; kept, prompts are computed
    up to twice as fast. The setting is the process's; memory freed by anyone stays
    with it.

    Returns:
        Whether the C library is glibc and took the setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    taken = mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    return bool(taken and mallopt(_M_TRIM_THRESHOLD, _NEVER))
