"""Codes, scales and shifts of GGUF's blocks that fit the kernels' formats.

The formats are those of ggml. A weight is code · scale + shift, in groups of 32 inputs.
Nothing is rounded, but a shift of Q4_1 and Q4_K, whose codes are stored minus 8: it is
a sum in float32.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind

GROUP = 32
_SUB_BLOCKS = 8
"""Groups in a block of 256 numbers."""


class Codes(NamedTuple):
    """A weight.

    Attributes:
        codes: int8 [out, in].
        scales: float32 [out, groups].
        shifts: The same shape; None if all are zero.
        bits: 8 or 4.
    """

    codes: np.ndarray
    scales: np.ndarray
    shifts: np.ndarray | None
    bits: int


def packed(rows: np.ndarray, kind: Kind) -> Codes:
    """Reads the blocks of a weight.

    Args:
        rows: uint8 [out, bytes of a row].
        kind: Their format, one of `PACKED`.
    """
    blocks = rows.reshape(-1, GGML_QUANT_SIZES[kind][1])
    codes, scales, shifts, bits = PACKED[kind](blocks)
    return Codes(
        codes=codes.reshape(len(rows), -1),
        scales=scales.reshape(len(rows), -1),
        shifts=None if shifts is None else shifts.reshape(len(rows), -1),
        bits=bits,
    )


def _halves(blocks: np.ndarray, start: int) -> np.ndarray:
    """Reads a number of 16 bits of each block, as float32 [blocks]."""
    two = np.ascontiguousarray(blocks[:, start : start + 2])
    return two.view(np.float16).astype(np.float32)[:, 0]


def _nibbles(packed_bytes: np.ndarray) -> np.ndarray:
    """[…, n] → […, 2 n]: the lower bits of all bytes, then the higher ones."""
    return np.concatenate((packed_bytes & 15, packed_bytes >> 4), axis=-1)


def _q8_0(blocks: np.ndarray) -> Codes:
    codes = np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
    return Codes(codes, _halves(blocks, 0), None, 8)


def _q4_0(blocks: np.ndarray) -> Codes:
    codes = _nibbles(blocks[:, 2:]).view(np.int8) - np.int8(8)
    return Codes(codes, _halves(blocks, 0), None, 4)


def _q4_1(blocks: np.ndarray) -> Codes:
    scales = _halves(blocks, 0)
    codes = _nibbles(blocks[:, 4:]).view(np.int8) - np.int8(8)
    return Codes(codes, scales, _halves(blocks, 2) + 8 * scales, 4)


def _fifth_bits(blocks: np.ndarray, start: int) -> np.ndarray:
    """Reads a bit of each of 32 numbers, as 0 or 16."""
    bits = np.unpackbits(blocks[:, start : start + 4], axis=-1, bitorder="little")
    return bits << 4


def _q5_0(blocks: np.ndarray) -> Codes:
    codes = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return Codes(codes.view(np.int8) - np.int8(16), _halves(blocks, 0), None, 8)


def _q5_1(blocks: np.ndarray) -> Codes:
    codes = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return Codes(codes.view(np.int8), _halves(blocks, 0), _halves(blocks, 2), 8)


def _scales_of_k(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads 8 scales and minima of 6 bits, times those of the block, [blocks, 8]."""
    low, high, rest = (blocks[:, start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate((low & 63, (rest & 15) | (low >> 6 << 4)), axis=-1)
    minima = np.concatenate((high & 63, (rest >> 4) | (high >> 6 << 4)), axis=-1)
    of_scales, of_minima = _halves(blocks, 0), _halves(blocks, 2)
    return (
        of_scales[:, None] * scales.astype(np.float32),
        of_minima[:, None] * minima.astype(np.float32),
    )


def _codes_of_k(blocks: np.ndarray, start: int) -> np.ndarray:
    """Reads 256 numbers of 4 bits, [blocks, 8, 32]."""
    pairs = blocks[:, start:].reshape(-1, _SUB_BLOCKS // 2, GROUP)
    return _nibbles(pairs).reshape(-1, _SUB_BLOCKS, GROUP)


def _q4_k(blocks: np.ndarray) -> Codes:
    scales, minima = _scales_of_k(blocks)
    codes = _codes_of_k(blocks, 16).view(np.int8) - np.int8(8)
    return Codes(codes, scales, 8 * scales - minima, 4)


def _q5_k(blocks: np.ndarray) -> Codes:
    scales, minima = _scales_of_k(blocks)
    planes = blocks[:, 16:48]
    places = np.arange(_SUB_BLOCKS, dtype=np.uint8)[:, None]
    fifth = (planes[:, None, :] >> places & 1) << 4
    codes = _codes_of_k(blocks, 48) | fifth
    return Codes(codes.view(np.int8), scales, -minima, 8)


PACKED: Mapping[Kind, Callable[[np.ndarray], Codes]] = {
    Kind.Q8_0: _q8_0,
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q5_0: _q5_0,
    Kind.Q5_1: _q5_1,
    Kind.Q4_K: _q4_k,
    Kind.Q5_K: _q5_k,
}
"""What reads each format whose groups of numbers the kernels have, too."""
