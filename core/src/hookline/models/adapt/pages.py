"""Memory of weight files that were read once and are needed no more."""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_SUFFIX = ".safetensors"


def give_back_clean_pages() -> None:
    """Forgets what this process has read of the weight files that it maps.

    Most of it has been copied into packed weights. Whatever is still used, such as rows
    of an embedding, is read again from the file when it is next looked at; maps that
    were written to are left alone.
    """
    smaps = Path("/proc/self/smaps")
    if not sys.platform.startswith("linux") or not smaps.is_file():
        return
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, length in _clean_maps(smaps.read_text("utf-8", "replace")):
        advise(start, length, _MADV_DONTNEED)


def _clean_maps(smaps: str) -> Iterator[tuple[int, int]]:
    """Start and length of each map of a weight file without a page of its own."""
    found: tuple[int, int] | None = None
    for line in smaps.splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            first, last = (int(end, 16) for end in name.split("-"))
            is_weights = bool(values) and values[-1].endswith(_SUFFIX)
            found = (first, last - first) if is_weights else None
        elif name == "Anonymous:" and found is not None:
            if int(values[0]) == 0:
                yield found
            found = None
