"""Products in float32 on the matrix unit, which multiplies bfloat16.

A number of float32 is the sum of three of bfloat16, to its last bit: each takes eight
bits of what those before it left. Of the nine products of two such sums six are made;
what the others would add is less than float32 keeps of the whole (Henry, Tang and
Heinecke 2019, Leveraging the bfloat16 Artificial Intelligence Datatype). So sums are
as right as those of float32, and from 17 rows on quicker than with vectors.

Weights are split once; rows are split by each thread for the panels that it takes. A
panel is 32 outputs: of each 32 inputs its three pieces follow one another, each as in
`panels`, and so do those of a block of 32 rows. Each sum is made in the order of the
inputs, so that a token's result is the same whatever is computed with it.
"""

import functools
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    BLOCK_BYTES,
    DEPTH,
    HEIGHT,
    ROWS,
    clear_tile,
    has_tiles,
    load_tile,
    multiply_tiles,
    store_tile,
)
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.float32_gemm import Float32Product
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import (
    OUTPUTS,
    SUM_BYTES,
    close_tiles,
    lay_panels,
    open_tiles,
    own_memory,
)
from hookline_kernels.cpu.skinny_gemm import add_rows
from hookline_kernels.cpu.vectors import (
    CACHE_LINE,
    INT64,
    Emit,
    load,
    offset,
    prefetch,
    rounded,
    store,
    widened,
)
from hookline_kernels.failure import KernelError

PIECES = 3
"""Numbers in bfloat16 that one in float32 is the sum of."""
_STEP_BYTES = PIECES * BLOCK_BYTES
"""Of 32 inputs of a panel, and as well of 32 rows."""
_ROOM = 256 << 10
"""Bytes of rows that a thread splits at once; they stay in its second cache."""
_SUMS_ROOM = 2 * SUM_BYTES
_MOST_INPUTS = _ROOM // _STEP_BYTES * DEPTH
_MOST_BYTES = 8 << 20
"""Of a weight in pieces, which are kept beside the weight itself for few rows."""

_ORDER = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0))
"""Pieces of rows and of weights whose product is made. Rows pass by the panel, which
stays in the first cache."""
_LINES = _STEP_BYTES // CACHE_LINE // len(_ORDER)
"""Of a panel to come, for each product."""
_SUMS, _OWN, _OTHERS = (0, 1, 2, 3), (4, 5), (6, 7)


class Bf16x3Gemm(Float32Product):
    """In pieces, of any number of rows.

    What is infinite, or larger than bfloat16 has numbers for, makes sums that are none.

    Attributes:
        least: Rows from which it is quicker than vectors.
    """

    least = ROWS + 1

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Compiles what is not compiled yet.

        Args:
            weight: Of `pack_bf16x3`.
            bias: [out].

        Raises:
            KernelError: There is no kernel on this machine.
        """
        super().__init__(_kernel(), weight, bias, rows_at_once=HEIGHT)


def pack_bf16x3(weight: torch.Tensor) -> torch.Tensor:
    """[out, in] in float32 → [out, in, 3] bfloat16, which lies in panels.

    Raises:
        KernelError: It cannot, or is better not.
    """
    if weight.dtype != torch.float32 or weight.device.type != "cpu" or not has_tiles():
        raise KernelError(f"there is no matrix unit for {weight.dtype}")
    outputs, inputs = weight.shape
    if outputs % OUTPUTS or inputs % DEPTH or inputs > _MOST_INPUTS:
        raise KernelError(f"no panels in pieces for {outputs} by {inputs}")
    if 2 * PIECES * weight.numel() > _MOST_BYTES:
        raise KernelError(f"{outputs} by {inputs} is too large to be split")
    pieces, rest = [], weight
    for _ in range(PIECES):
        piece = rest.bfloat16()
        pieces.append(lay_panels(piece).view(outputs // OUTPUTS, inputs // DEPTH, -1))
        rest = rest - piece.float()
    return torch.stack(pieces, 2).view(outputs, inputs, PIECES)


@functools.cache
def _kernel() -> Kernel:
    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 10, np.int64)
        inputs, outputs, rows = given[1], given[2], given[3]
        steps, panels = inputs // DEPTH, outputs // OUTPUTS
        together = (panels + given[9] - 1) // given[9]
        most = _ROOM // (steps * _STEP_BYTES) * HEIGHT
        pieces, groups = (rows + most - 1) // most, (panels + together - 1) // together
        room, sums, turn = own_memory(_ROOM), own_memory(_SUMS_ROOM), 0
        before = open_tiles()
        task = take(numbers, 1)
        while task < pieces * groups:
            first = task // groups * most
            last = min(first + most, rows)
            blocks = (last - first + HEIGHT - 1) // HEIGHT
            lines = (_LINES + blocks - 1) // blocks
            start = task % groups * together
            split_rows(given[7] + 4 * first * inputs, last - first, steps, room)
            earlier, height, shift, extra, target = 0, 0, 0, 0, 0
            for panel in range(start, min(start + together, panels)):
                weights = given[4] + panel * steps * _STEP_BYTES
                ahead = steps * _STEP_BYTES
                for block in range(blocks):
                    row = first + block * HEIGHT
                    source = room + block * steps * _STEP_BYTES
                    place = sums + turn * SUM_BYTES
                    count = min(last - row, HEIGHT)
                    multiply_pieces(
                        source,
                        count,
                        weights,
                        steps,
                        place,
                        ahead,
                        lines,
                        earlier,
                        height,
                        shift,
                        extra,
                        target,
                        outputs,
                    )
                    here = 4 * (row * outputs + panel * OUTPUTS)
                    earlier, height = place, count
                    shift = given[5] + 4 * panel * OUTPUTS if given[5] else 0
                    extra = given[6] + here if given[6] else 0
                    target = given[8] + here
                    turn = 1 - turn
                    ahead += len(_ORDER) * lines * CACHE_LINE
            finish_rows(earlier, 0, height, shift, extra, target, outputs)
            task = take(numbers, 1)
        close_tiles(before)

    return Kernel(multiply, "split-panels")


def _split_rows(
    _: object, values: Any, rows: Any, steps: Any, room: Any
) -> tuple[Signature, Emit]:
    """Rows of so many times 32 inputs become pieces, in blocks of 32 rows."""
    signature = types.void(*[types.intp for _ in (values, rows, steps, room)])

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, count, parts, target = args
        block_bytes = builder.mul(parts, INT64(_STEP_BYTES))
        with cgutils.for_range(builder, count, intp=INT64) as loop:
            row = builder.mul(loop.index, parts)
            block = builder.udiv(loop.index, INT64(HEIGHT))
            place = builder.add(target, builder.mul(block, block_bytes))
            within = builder.urem(loop.index, INT64(HEIGHT))
            place = offset(builder, place, within, 2 * DEPTH)
            with cgutils.for_range(builder, parts, intp=INT64) as inner:
                at = builder.add(row, inner.index)
                to = offset(builder, place, inner.index, _STEP_BYTES)
                for half in range(2):
                    start = offset(builder, source, at, 4 * DEPTH)
                    rest = load(builder, offset(builder, start, half, 64), ROWS)
                    for piece in range(PIECES):
                        bits = rounded(builder, rest)
                        own = builder.add(to, INT64(piece * BLOCK_BYTES + half * 32))
                        store(builder, bits, own)
                        rest = builder.fsub(rest, widened(builder, bits))
        return context.get_dummy_value()

    return signature, emit


def _multiply_pieces(  # noqa: PLR0917 - numba passes by position
    _: object,
    rows: Any,
    count: Any,
    weights: Any,
    steps: Any,
    sums: Any,
    ahead: Any,
    lines: Any,
    earlier: Any,
    height: Any,
    shift: Any,
    extra: Any,
    target: Any,
    stride: Any,
) -> tuple[Signature, Emit]:
    """Sums of a block of rows, which has so many, times a panel.

    While the matrix unit works, `lines` cache lines a product of what lies `ahead`
    bytes behind the weights are asked for, and the `earlier` sums are finished.
    """
    given = (
        *(rows, count, weights, steps, sums, ahead, lines),
        *(earlier, height, shift, extra, target, stride),
    )

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        is_high = builder.icmp_signed(">", args[1], INT64(ROWS))
        with builder.if_else(is_high) as (high, low):
            with high:
                _multiply_tiles(builder, args, 2)
            with low:
                _multiply_tiles(builder, args, 1)
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given]), emit


def _multiply_tiles(builder: ir.IRBuilder, args: list[ir.Value], high: int) -> None:
    """Likewise, of rows that take one tile or two."""
    source, _, panel, count, totals, coming, wanted, done, most = args[:9]
    sums, own = _SUMS[: 2 * high], _OWN[:high]
    for each in sums:
        clear_tile(builder, each)
    share = builder.add(builder.udiv(most, count), INT64(1))
    with cgutils.for_range(builder, count, intp=INT64) as loop:
        at, line = (
            offset(builder, side, loop.index, _STEP_BYTES) for side in (source, panel)
        )
        asked = builder.add(line, coming)
        there = None
        for piece, other in _ORDER:
            if piece != there:
                there = piece
                start = builder.add(at, INT64(piece * BLOCK_BYTES))
                for index, each in enumerate(own):
                    place = offset(builder, start, index, ROWS * 64)
                    load_tile(builder, each, place, 64, passes_by=True)
            start = builder.add(line, INT64(other * BLOCK_BYTES))
            for index, each in enumerate(_OTHERS):
                load_tile(builder, each, offset(builder, start, index, 64), 128)
            for each in sums:
                multiply_tiles(builder, each, own[each // 2], _OTHERS[each % 2])
            with cgutils.for_range(builder, wanted, intp=INT64) as inner:
                place = offset(builder, asked, inner.index, CACHE_LINE)
                prefetch(builder, place, range(1))
            asked = offset(builder, asked, wanted, CACHE_LINE)
        row = builder.mul(loop.index, share)
        end = builder.add(row, share)
        is_last = builder.icmp_signed(">", end, most)
        end = builder.select(is_last, most, end)
        _finish(builder, done, (row, end), args[9:13])
    for each in sums:
        place = builder.add(totals, INT64(each // 2 * 2048 + each % 2 * 64))
        store_tile(builder, each, place, 128)


def _finish_rows(  # noqa: PLR0917 - numba passes by position
    _: object,
    sums: Any,
    first: Any,
    last: Any,
    shift: Any,
    extra: Any,
    target: Any,
    stride: Any,
) -> tuple[Signature, Emit]:
    """Rows of 32 sums get what is added to them, and go where they belong."""
    given = (sums, first, last, shift, extra, target, stride)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        _finish(builder, args[0], (args[1], args[2]), args[3:7])
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given]), emit


def _finish(
    builder: ir.IRBuilder,
    sums: ir.Value,
    bounds: tuple[ir.Value, ir.Value],
    rest: list[ir.Value],
) -> None:
    shift, extra, target, stride = rest
    add_rows(
        builder,
        sums,
        bounds,
        shift=shift,
        extra=extra,
        target=target,
        stride=stride,
        size=4,
    )


finish_rows: Any = intrinsic(_finish_rows)
split_rows: Any = intrinsic(_split_rows)
multiply_pieces: Any = intrinsic(_multiply_pieces)
