"""Reads tensors of a file a piece at a time, and converts their numbers.

Everything runs on one thread and mostly without the interpreter's lock, so that steps
of the engine go on beside it; pieces are small enough for a processor's cache.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from hookline_lora.files.header import ITEM_BYTES, Place

Bits = NDArray[Any]
"""Numbers of a file as unsigned integers of their size."""

_PIECE_BYTES: Final = 1 << 20
_INTEGERS: Final[Mapping[int, np.dtype[Any]]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}
_EXPONENTS = {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F80_0000}
"""The bits that infinite numbers and NaN alone have all of."""


def pieces(file: BinaryIO, place: Place) -> Iterator[tuple[int, Bits]]:
    """Yields a tensor's rows in order, [rows, columns], with the index of the first.

    A piece is valid until the next is asked for. A vector is a row.

    Raises:
        OSError: The file cannot be read.
        ValueError: It ends too early.
    """
    columns = place.shape[-1]
    rows = place.shape[0] if len(place.shape) > 1 else 1
    kind = _INTEGERS[ITEM_BYTES[place.dtype]]
    if not rows or not columns:
        return
    most = min(rows, max(1, _PIECE_BYTES // (columns * kind.itemsize)))
    buffer: Bits = np.empty((most, columns), kind)
    file.seek(place.start)
    for start in range(0, rows, most):
        piece = buffer[: min(most, rows - start)]
        if file.readinto(piece.data.cast("B")) != piece.nbytes:  # type: ignore[attr-defined]
            raise ValueError("it has become shorter")
        yield start, piece


def are_finite(bits: Bits, dtype: str) -> bool:
    """Whether numbers are neither infinite nor NaN."""
    exponents = bits.dtype.type(_EXPONENTS[dtype])
    return not bits.size or bool((bits & exponents).max() < exponents)


def as_float32(bits: Bits, dtype: str) -> NDArray[np.float32]:
    """Returns numbers of a file in float32, which has all of them."""
    if dtype == "BF16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    found: NDArray[np.float32] = bits.view("<f2" if dtype == "F16" else "<f4")
    return found.astype(np.float32)


def rounded(numbers: NDArray[np.float32], dtype: str) -> Bits:
    """Returns finite numbers of float32 as bits of another type, rounded to nearest."""
    if dtype == "F32":
        return numbers.view(np.uint32)
    if dtype == "F16":
        with np.errstate(over="ignore"):  # is looked for afterwards
            return numbers.astype(np.float16).view(np.uint16)
    bits = numbers.view(np.uint32)
    half = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return ((bits + half) >> np.uint32(16)).astype(np.uint16)
