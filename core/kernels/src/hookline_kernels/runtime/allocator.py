"""Settings of this process's C allocator for freed memory."""

import ctypes
import sys
from collections.abc import Callable

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_MMAP_THRESHOLD = 32 * 1024 * 1024
"""Maximum that glibc accepts (half of HEAP_MAX_SIZE on 64 bits)."""
_NEVER = 2**31 - 1
_LARGE_BYTES = 2**20
"""Size from which a block is returned once it is freed."""


def keep_freed_memory() -> bool:
    """Makes glibc reuse freed memory instead of returning it to the system.

    A forward pass allocates and frees buffers of megabytes many times a layer. By
    default glibc gets each of them from the system again, page by page; with this
    setting prompts are computed up to twice as fast. It applies to the whole process.

    Returns:
        Whether the C library is glibc and accepted the setting.
    """
    if (mallopt := _glibc("mallopt")) is None:
        return False
    taken = mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    return bool(taken and mallopt(_M_TRIM_THRESHOLD, _NEVER))


def return_large_blocks() -> bool:
    """Makes glibc return each large block to the system once it is freed.

    By default glibc keeps up to 64 MB in each thread's arena, once blocks of such sizes
    have been freed, and `malloc_trim` does not return the end of these arenas. It
    applies to the whole process.

    Returns:
        Whether the C library is glibc and accepted the setting.
    """
    if (mallopt := _glibc("mallopt")) is None:
        return False
    taken = mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    # Smaller blocks come and go within this: it is in glibc's own ratio to the other.
    return bool(taken and mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES))


def return_freed_memory() -> bool:
    """Returns the memory that glibc keeps for reuse to the system, once.

    Returns:
        Whether the C library is glibc and returned any.
    """
    malloc_trim = _glibc("malloc_trim")
    return malloc_trim is not None and bool(malloc_trim(ctypes.c_size_t(0)))


def _glibc(name: str) -> Callable[..., int] | None:
    """A function that glibc has and other C libraries lack."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = ctypes.CDLL(None)[name]
    except AttributeError:
        return None
    return function
