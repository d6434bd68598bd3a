"""An array of which plugins may see every element and change none, without a copy.

The memory is mapped twice: once for the engine, and once read-only. Arrays over the
second mapping cannot be made writable, nor can their bases.
"""

import mmap
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hookline_host.folders import nameless_file

Int32 = npt.NDArray[np.int32]


class ReadOnlyMirror(NamedTuple):
    """Two arrays over the same memory, int32, zero at first.

    Attributes:
        own: The engine's.
        shown: Read-only for everybody, for as long as the memory exists.
    """

    own: Int32
    shown: Int32


def make_mirror(num_rows: int, num_columns: int) -> ReadOnlyMirror:
    """Returns two arrays of this shape."""
    count = num_rows * num_columns
    size = max(1, count * np.dtype(np.int32).itemsize)
    with nameless_file("hookline-rows") as file:
        file.truncate(size)
        maps = [
            mmap.mmap(file.fileno(), size, access=access)
            for access in (mmap.ACCESS_WRITE, mmap.ACCESS_READ)
        ]
    own, shown = (
        np.frombuffer(each, np.int32, count).reshape(num_rows, num_columns)
        for each in maps
    )
    return ReadOnlyMirror(own, shown)
