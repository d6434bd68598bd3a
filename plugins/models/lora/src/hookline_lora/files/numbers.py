"""Reads tensors of a file a piece at a time, and converts their numbers.

Everything runs on one thread and mostly without the interpreter's lock, so that steps
of the engine go on beside it; pieces are small enough for a processor's cache.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from hookline_lora.files.header import ITEM_BYTES, Place
from hookline_lora.pacing import Rest, no_rest

Bits = NDArray[Any]
"""Numbers of a file as unsigned integers of their size."""

_PIECE_BYTES: Final = 1 << 20
_INTEGERS: Final[Mapping[int, np.dtype[Any]]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}
_EXPONENTS = {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F80_0000}
"""The bits that infinite numbers and NaN alone have all of."""


def pieces(
    file: BinaryIO, place: Place, rest: Rest = no_rest
) -> Iterator[tuple[int, Bits]]:
    """Yields a tensor's rows in order, [rows, columns], with the index of the first.

    A piece is valid until the next is asked for, before which there is a rest. A vector
    is a row.

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
        rest()


def are_finite(bits: Bits, dtype: str) -> bool:
    """Whether numbers are neither infinite nor NaN."""
    exponents = bits.dtype.type(_EXPONENTS[dtype])
    return not bits.size or bool((bits & exponents).max() < exponents)


class Converter:
    """Converts the pieces of one tensor; each is valid until the next."""

    def __init__(self, stored: str, dtype: str, scale: float = 1.0) -> None:
        """Converts from a type to another, and multiplies in float32 before that."""
        self._stored, self._dtype, self._scale = stored, dtype, np.float32(scale)
        self._room: tuple[NDArray[np.uint32], NDArray[np.uint32]] | None = None

    def converted(self, bits: Bits) -> Bits:
        """Returns finite numbers as those of the other type, rounded to nearest.

        Those that it has not become infinite. Bits are in the lower half of integers
        that are wider than its numbers.
        """
        if self._stored == self._dtype and self._scale == 1.0:
            return bits
        if self._room is None:  # no piece is larger than the first
            self._room = np.empty(bits.shape, "<u4"), np.empty(bits.shape, "<u4")
        wide, spare = (each[: len(bits)] for each in self._room)
        self._widen(bits, wide)
        with np.errstate(over="ignore"):
            numbers = wide.view(np.float32)
            if self._scale != 1.0:
                numbers *= self._scale
            if self._dtype == "F16":
                return numbers.astype(np.float16).view(np.uint16)
        return _rounded(wide, spare) if self._dtype == "BF16" else wide

    def _widen(self, bits: Bits, wide: NDArray[np.uint32]) -> None:
        if self._stored == "BF16":
            np.left_shift(bits, np.uint32(16), out=wide)
        elif self._stored == "F16":
            np.copyto(wide.view(np.float32), bits.view("<f2"))
        else:
            np.copyto(wide, bits)


def _rounded(wide: NDArray[np.uint32], spare: NDArray[np.uint32]) -> Bits:
    """Rounds float32 to bfloat16, in place; of two that are as near to the even one."""
    np.right_shift(wide, np.uint32(16), out=spare)
    spare &= np.uint32(1)
    spare += np.uint32(0x7FFF)
    wide += spare
    wide >>= np.uint32(16)
    return wide
