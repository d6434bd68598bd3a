"""Transposes matrices of 16 by 16 words in registers, for panels of tiles and rows."""

from collections.abc import Iterable

from llvmlite import ir

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.bfloat_pairs import store_words
from hookline_kernels.cpu.vectors import INT32, INT64, vector

TILE_BYTES = 4 * ROWS * ROWS
"""Bytes of a matrix, which fills a tile of the matrix unit."""
_HALF = ROWS // 2


def transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Transposes 16 vectors of 16 words, of float32 or int32.

    Interleaving the halves of the rows moves one bit of the row index into the column
    index; after four times rows and columns are exchanged.
    """
    low, high = (
        ir.Constant(
            vector(ROWS, INT32),
            [place for at in range(_HALF) for place in (at + half, at + half + ROWS)],
        )
        for half in (0, _HALF)
    )
    for _ in range(4):
        rows = [
            builder.shuffle_vector(rows[at], rows[at + _HALF], order)
            for at in range(_HALF)
            for order in (low, high)
        ]
    return rows


def store_rows(
    builder: ir.IRBuilder, rows: Iterable[ir.Value], address: ir.Value
) -> None:
    """Stores vectors of 16 words one after another."""
    for index, row in enumerate(rows):
        store_words(builder, row, builder.add(address, INT64(4 * ROWS * index)))
