"""Memory that the engine changes and plugins only see."""

import mmap

import numpy as np
import pytest

from hookline_kernels.runtime.read_only_mirror import make_mirror


def test_shown_array_follows_the_engines() -> None:
    """
    What the engine writes is seen at once, without a copy.
    """
    mirror = make_mirror(3, 5)

    mirror.own[1, 2:4] = [7, 8]

    assert mirror.shown.tolist() == [[0] * 5, [0, 0, 7, 8, 0], [0] * 5]
    assert mirror.shown.dtype == np.int32


def test_nothing_makes_the_shown_array_writable() -> None:
    """
    Neither a row, nor its flag, nor any of its bases lets anybody write.
    """
    mirror = make_mirror(2, 4)
    row = mirror.shown[1, :2]

    with pytest.raises(ValueError, match="read-only"):
        row[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        row.flags.writeable = True
    base: object = row.base
    while isinstance(base, np.ndarray):
        with pytest.raises(ValueError, match="WRITEABLE"):
            base.flags.writeable = True
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    assert isinstance(base, mmap.mmap)
    with pytest.raises(TypeError, match="can't modify a readonly"):
        base[0] = 1
    assert memoryview(base).readonly
    assert not mirror.own.any()
