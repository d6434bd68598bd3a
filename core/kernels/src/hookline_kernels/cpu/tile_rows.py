"""Products of up to 32 rows with 32 outputs, on the matrix unit's tiles (AMX).

The sums of such a product fill four tiles; two more hold rows, and two hold weights.
With up to 16 rows, half of the sums and one tile of rows are left out.
"""

from collections.abc import Callable

from llvmlite import ir

from hookline_kernels.cpu.amx import (
    DEPTH,
    INT8,
    ROWS,
    clear_tile,
    configure_tiles,
    load_tile,
    multiply_tiles,
    store_tile,
)
from hookline_kernels.cpu.vectors import INT64, offset

MOST_ROWS = 2 * ROWS
"""Most rows of a product."""
SUMS_PITCH = 8 * ROWS
"""Bytes of a row of sums: 32 float32 numbers."""
_LINE = 2 * DEPTH
"""Bytes of a row of a tile."""


def for_tiles(
    builder: ir.IRBuilder, rows: ir.Value, emit: Callable[[int], None]
) -> None:
    """Emits code for rows that fill two tiles, and code for rows that fit into one."""
    is_high = builder.icmp_signed(">", rows, INT64(ROWS))
    with builder.if_else(is_high) as (high, low):
        with high:
            emit(2)
        with low:
            emit(1)


class TileRows:
    """Rows of bfloat16 numbers, and the sums of their products with 32 outputs."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        values: ir.Value,
        inputs: ir.Value,
        rows: ir.Value,
        tiles: int,
    ) -> None:
        """Computes with contiguous rows.

        Args:
            builder: Emits the instructions.
            values: Address of the rows, bfloat16 [rows, inputs].
            inputs: A multiple of 32.
            rows: 1 to 16 if they fit into one tile, 17 to 32 if they fill two.
            tiles: 1 or 2.
        """
        self._values, self._row_bytes = values, builder.mul(inputs, INT64(2))
        self._last = builder.trunc(builder.sub(rows, INT64(ROWS * (tiles - 1))), INT8)
        self._sums = range(2 * tiles)
        self._own, self._others = range(4, 4 + tiles), (6, 7)

    def configure(self, builder: ir.IRBuilder) -> ir.Value:
        """Configures the tiles; returns the state for `amx.restore_tiles`."""
        heights = dict.fromkeys((*self._sums, *self._own, *self._others), INT8(ROWS))
        heights |= dict.fromkeys((*self._sums[-2:], self._own[-1]), self._last)
        return configure_tiles(builder, heights)

    def clear(self, builder: ir.IRBuilder) -> None:
        """Sets the sums to zero."""
        for each in self._sums:
            clear_tile(builder, each)

    def multiply(
        self,
        builder: ir.IRBuilder,
        step: ir.Value,
        weights: ir.Value,
        pitch: int,
        *,
        passes_by: bool = False,
    ) -> None:
        """Adds the products of 32 inputs.

        Args:
            builder: Emits the instructions.
            step: Which 32 inputs of the rows.
            weights: Address of their weights, pairs of bfloat16 [16, 32, 2].
            pitch: Bytes from pair to pair of inputs.
            passes_by: The weights are read once, and do not evict rows from the L1
                cache.
        """
        for index, each in enumerate(self._own):
            start = builder.mul(self._row_bytes, INT64(ROWS * index))
            start = builder.add(self._values, start)
            at = offset(builder, start, step, _LINE)
            load_tile(builder, each, at, self._row_bytes)
        for index, each in enumerate(self._others):
            place = offset(builder, weights, index, _LINE)
            load_tile(builder, each, place, pitch, passes_by=passes_by)
        for each in self._sums:
            own, other = self._own[each // 2], self._others[each % 2]
            multiply_tiles(builder, each, own, other)

    def store(self, builder: ir.IRBuilder, target: ir.Value) -> None:
        """Writes the sums, float32 [rows, 32]."""
        for each in self._sums:
            at = each // 2 * ROWS * SUMS_PITCH + each % 2 * _LINE
            store_tile(builder, each, builder.add(target, INT64(at)), SUMS_PITCH)
