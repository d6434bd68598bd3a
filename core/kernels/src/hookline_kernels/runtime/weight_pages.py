"""Frees memory of weight files that have been read and are no longer needed."""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_SUFFIX = ".safetensors"
_WORTH_BYTES = 1 << 24
"""Maps of fewer bytes are kept: the kernel takes milliseconds to look at all pages."""


def give_back_clean_pages() -> None:
    """Drops the clean pages of the weight files that this process maps.

    Most of them have been copied into packed weights. Pages in use, such as rows of an
    embedding, are read again from the file at the next access; modified maps are kept.
    """
    maps, smaps = Path("/proc/self/maps"), Path("/proc/self/smaps")
    if not sys.platform.startswith("linux") or not smaps.is_file():
        return
    if _mapped_bytes(maps.read_text("utf-8", "replace")) < _WORTH_BYTES:
        return
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, length in _clean_maps(smaps.read_text("utf-8", "replace")):
        advise(start, length, _MADV_DONTNEED)


def _mapped_bytes(maps: str) -> int:
    """Returns how many bytes of weight files are mapped."""
    ends = [line.split()[0].split("-") for line in maps.splitlines() if _SUFFIX in line]
    return sum(int(last, 16) - int(first, 16) for first, last in ends)


def _clean_maps(smaps: str) -> Iterator[tuple[int, int]]:
    """Yields start and length of each unmodified map of a weight file."""
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
