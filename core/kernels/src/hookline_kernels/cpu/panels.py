"""Weights in panels, and what the matrix unit makes of a slice of one.

A panel is 32 outputs of a weight, in memory as [in ÷ 2, 32, 2]: a pair of neighbouring
inputs of each output follows another, so that 32 inputs are two tiles. A slice of a
panel, some of its inputs, stays in the first cache while many rows pass it; the rows
pass by the second cache alone (a kind of load that processors have for such a use), and
sums go to memory from slice to slice.

Rows are numbers in bfloat16, one row after another or in blocks as `BLOCK_BYTES` says:
32 inputs of 32 rows, then the next 32 inputs of these rows.
"""

from typing import Any

import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    DEPTH,
    INT8,
    ROWS,
    begin,
    clear_tile,
    end,
    load_tile,
    multiply_tiles,
    own_bytes,
    pass_tile,
    store_tile,
)
from hookline_kernels.cpu.vectors import CACHE_LINE, INT64, Emit, offset, prefetch

OUTPUTS = 2 * ROWS
"""Of a panel."""
HEIGHT = 2 * ROWS
"""Rows that a panel's slice is multiplied with at once."""
BLOCK_BYTES = HEIGHT * DEPTH * 2
SUM_BYTES = HEIGHT * OUTPUTS * 4
"""Of the sums of so many rows, float32 [32, 32]."""
STEP_BYTES = DEPTH * OUTPUTS * 2
"""Of 32 inputs in a panel."""

_SUMS, _OWN, _OTHERS = (0, 1, 2, 3), (4, 5), (6, 7)
_ROW_BYTES = DEPTH * 2
"""Of a tile."""


def lay_panels(weight: torch.Tensor) -> torch.Tensor:
    """A copy of [out, in] in bfloat16, of the same shape, that lies in panels.

    Both sides are multiples of 32.
    """
    outputs, inputs = weight.shape
    pairs = weight.view(outputs // OUTPUTS, OUTPUTS, inputs // 2, 2)
    return pairs.transpose(1, 2).contiguous().view(outputs, inputs)


def _open_tiles(_: object) -> tuple[Signature, Emit]:
    """Sets all tiles up; returns what `close_tiles` wants."""

    def emit(
        _: Any, builder: ir.IRBuilder, __: object, ___: list[ir.Value]
    ) -> ir.Value:
        before = begin(builder, dict.fromkeys(range(8), INT8(ROWS)))
        return builder.ptrtoint(before, INT64)

    return types.intp(), emit


def _close_tiles(_: object, before: Any) -> tuple[Signature, Emit]:
    """Sets the tiles up as they were."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        end(builder, builder.inttoptr(args[0], INT8.as_pointer()))
        return context.get_dummy_value()

    return types.void(before), emit


def _own_memory(_: object, count: Any) -> tuple[Signature, Emit]:
    """The address of so many bytes of the function's own."""
    size = count.literal_value

    def emit(
        _: Any, builder: ir.IRBuilder, __: object, ___: list[ir.Value]
    ) -> ir.Value:
        return builder.ptrtoint(own_bytes(builder, size), INT64)

    return types.intp(count), emit


def _multiply_slice(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    row_bytes: Any,
    weights: Any,
    steps: Any,
    sums: Any,
    ahead: Any,
    lines: Any,
    before: Any,
    in_blocks: Any,
) -> tuple[Signature, Emit]:
    """sums[r, o] (+)= Σ values[r, i] · weights[o, i], for 32 rows and a panel.

    Of `steps` times 32 inputs. `row_bytes` lie from row to row, where rows do not lie
    in blocks. Meanwhile `lines` cache lines a step are asked for, from `ahead` on. What
    is in `sums` counts if there were steps `before`.
    """
    given = (values, row_bytes, weights, steps, sums, ahead, lines, before)
    signature = types.void(*[types.intp for _ in given], in_blocks)
    blocks = in_blocks.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, pitch, panel, count, totals, coming, wanted, done = args[:8]
        if blocks:
            pitch, step, half = INT64(_ROW_BYTES), BLOCK_BYTES, INT64(BLOCK_BYTES // 2)
        else:
            step, half = _ROW_BYTES, builder.mul(pitch, INT64(ROWS))
        places = [
            builder.add(totals, INT64(each // 2 * ROWS * 128 + each % 2 * _ROW_BYTES))
            for each in _SUMS
        ]
        is_first = builder.icmp_signed("==", done, INT64(0))
        with builder.if_else(is_first) as (at_first, later):
            with at_first:
                for each in _SUMS:
                    clear_tile(builder, each)
            with later:
                for each, place in zip(_SUMS, places, strict=True):
                    load_tile(builder, each, place, 128)
        with cgutils.for_range(builder, count, intp=INT64) as loop:
            asked = builder.mul(loop.index, wanted)
            with cgutils.for_range(builder, wanted, intp=INT64) as line:
                index = builder.add(asked, line.index)
                prefetch(builder, offset(builder, coming, index, CACHE_LINE), range(1))
            here = offset(builder, panel, loop.index, STEP_BYTES)
            rows = offset(builder, source, loop.index, step)
            for index, each in enumerate(_OTHERS):
                load_tile(builder, each, offset(builder, here, index, _ROW_BYTES), 128)
            for index, each in enumerate(_OWN):
                at = builder.add(rows, half) if index else rows
                pass_tile(builder, each, at, pitch)
            for each in _SUMS:
                multiply_tiles(builder, each, _OWN[each // 2], _OTHERS[each % 2])
        for each, place in zip(_SUMS, places, strict=True):
            store_tile(builder, each, place, 128)
        return context.get_dummy_value()

    return signature, emit


open_tiles: Any = intrinsic(_open_tiles)
close_tiles: Any = intrinsic(_close_tiles)
own_memory: Any = intrinsic(prefer_literal=True)(_own_memory)
multiply_slice: Any = intrinsic(prefer_literal=True)(_multiply_slice)
