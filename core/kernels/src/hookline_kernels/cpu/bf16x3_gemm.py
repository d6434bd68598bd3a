"""Products in float32 on the matrix unit (AMX), which multiplies bfloat16.

A float32 number is exactly the sum of three bfloat16 numbers: each takes the next eight
bits. Six of the nine products of two such sums are computed; the others are below the
precision of float32 (Henry, Tang and Heinecke 2019, Leveraging the bfloat16 Artificial
Intelligence Datatype). The sums are as precise as in float32. From 17 rows on this is
faster than vectors, which are faster for fewer.

Weights are split once; each thread splits rows for the panels that it takes. A panel is
32 outputs: for each 32 inputs its three pieces follow one another, each as in `panels`,
and so do those of a block of 32 rows. Sums are computed in the order of the inputs, so
that a token's result does not depend on the batch.
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
from hookline_kernels.cpu.finishing import AS_THEY_ARE, Finish, finish_sums
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
from hookline_kernels.cpu.tile_rows import for_tiles
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
"""Number of bfloat16 numbers whose sum is one float32 number."""
_STEP_BYTES = PIECES * BLOCK_BYTES
"""Bytes of 32 inputs of a panel, or of 32 rows."""
_ROOM = 256 << 10
"""Bytes of rows that a thread splits per pass; they stay in its L2 cache."""
_SUMS_ROOM = 2 * SUM_BYTES
_MOST_INPUTS = _ROOM // _STEP_BYTES * DEPTH
_MOST_BYTES = 8 << 20
"""Maximum size of a split weight, which is kept in addition to the weight."""

_ORDER = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0))
"""Pieces of rows and weights that are multiplied; the panel stays in the L1 cache."""
_LINES = _STEP_BYTES // CACHE_LINE // len(_ORDER)
"""Cache lines of the next panel to prefetch in each product."""
_SUMS, _OWN, _OTHERS = (0, 1, 2, 3), (4, 5), (6, 7)


class Bf16x3Gemm(Float32Product):
    """Computes with split numbers, any number of rows.

    Infinite numbers, and numbers beyond bfloat16's range, give not-a-numbers.

    Attributes:
        least: Number of rows from which it is faster than vectors.
    """

    least = ROWS + 1

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Compiles the kernel if it is not compiled yet.

        Args:
            weight: Of `pack_bf16x3`.
            bias: [out].

        Raises:
            KernelError: No kernel supports this machine.
        """
        super().__init__(_kernel(), weight, bias, rows_at_once=HEIGHT)


def pack_bf16x3(weight: torch.Tensor) -> torch.Tensor:
    """Splits a float32 weight [out, in] into [out, in, 3] bfloat16, in panels.

    Raises:
        KernelError: The weight or the CPU does not allow it, or it would not pay.
    """
    if weight.dtype != torch.float32 or weight.device.type != "cpu" or not has_tiles():
        raise KernelError(f"no matrix unit for {weight.dtype}")
    outputs, inputs = weight.shape
    if outputs % OUTPUTS or inputs % DEPTH or inputs > _MOST_INPUTS:
        raise KernelError(f"a weight of {outputs} by {inputs} does not fit the tiles")
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
            earlier, height, bias, residual, output = 0, 0, 0, 0, 0
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
                        bias,
                        residual,
                        output,
                        outputs,
                    )
                    here = 4 * (row * outputs + panel * OUTPUTS)
                    earlier, height = place, count
                    bias = given[5] + 4 * panel * OUTPUTS if given[5] else 0
                    residual = given[6] + here if given[6] else 0
                    output = given[8] + here
                    turn = 1 - turn
                    ahead += len(_ORDER) * lines * CACHE_LINE
            finish_sums(
                earlier, height, bias, residual, output, outputs, AS_THEY_ARE, 4
            )
            task = take(numbers, 1)
        close_tiles(before)

    return Kernel(multiply, "split-panels")


def _split_rows(
    _: object, values: Any, rows: Any, steps: Any, room: Any
) -> tuple[Signature, Emit]:
    """Splits rows of `steps` times 32 inputs, in blocks of 32 rows."""
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
    bias: Any,
    residual: Any,
    output: Any,
    stride: Any,
) -> tuple[Signature, Emit]:
    """Multiplies a block of `rows` rows with a panel.

    Meanwhile prefetches `lines` cache lines in each product, `ahead` bytes behind the
    weights, and finishes the `earlier` sums.
    """
    given = (
        *(rows, count, weights, steps, sums, ahead, lines),
        *(earlier, height, bias, residual, output, stride),
    )

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        for_tiles(builder, args[1], lambda tiles: _multiply_tiles(builder, args, tiles))
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given]), emit


def _multiply_tiles(builder: ir.IRBuilder, args: list[ir.Value], high: int) -> None:
    """Multiplies rows that fill one tile or two."""
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
        Finish(*args[9:13], size=4).rows(builder, done, (row, end))
    for each in sums:
        place = builder.add(totals, INT64(each // 2 * 2048 + each % 2 * 64))
        store_tile(builder, each, place, 128)


split_rows: Any = intrinsic(_split_rows)
multiply_pieces: Any = intrinsic(_multiply_pieces)
