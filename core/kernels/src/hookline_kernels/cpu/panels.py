"""Weights packed in panels, and their products on the matrix unit (AMX).

A panel is 32 outputs of a weight, in memory as [in ÷ 2, 32, 2]: pairs of neighbouring
inputs of each output, so that 32 inputs are two tiles. It stays in the L2 cache while
blocks of rows, which are there too, are multiplied with it.

Rows are bfloat16, one after another or in blocks of `BLOCK_BYTES`: 32 inputs of 32
rows, then their next 32 inputs.

The bottleneck is the bandwidth from L2 to L1, which suffices if either rows or weights
are in L1 already. So up to `STAYING` steps of a panel stay in L1 while blocks of rows
stream by. Products with many more inputs are computed in parts (`steps_at_once`), whose
sums go through memory. Rows outside of blocks evict each other from L1 and gain less.
"""

from dataclasses import dataclass
from typing import Any

import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    BLOCK_BYTES,
    DEPTH,
    HEIGHT,
    INT8,
    ROWS,
    clear_tile,
    configure_tiles,
    load_tile,
    multiply_tiles,
    own_bytes,
    restore_tiles,
    store_tile,
)
from hookline_kernels.cpu.finishing import Finish
from hookline_kernels.cpu.isa import emulates_tiles, has_matrix_unit
from hookline_kernels.cpu.vectors import (
    CACHE_LINE,
    INT64,
    Emit,
    offset,
    prefetch,
)

OUTPUTS = 2 * ROWS
"""Outputs in a panel."""
SUM_BYTES = HEIGHT * OUTPUTS * 4
"""Bytes of a block's sums, float32 [32, 32]."""
LINES = DEPTH * OUTPUTS * 2 // CACHE_LINE
"""Cache lines of 32 inputs of a panel."""
STAYING = 20
"""Steps of 32 inputs of a panel that stay in the L1 cache."""
MOST_STEPS = 26
"""Maximum number of steps computed in one part, although a few do not stay."""

_SUMS, _OWN, _OTHERS = (0, 1, 2, 3), (4, 5), (6, 7)
_ROW_BYTES = DEPTH * 2
"""Bytes of a row of a tile."""


def steps_at_once(steps: int) -> int:
    """Returns the steps of 32 inputs in each part of a product of rows in blocks.

    Storing and reloading the sums between parts costs about three steps.
    """
    parts = 1 if steps <= MOST_STEPS else -(-steps // STAYING)
    return -(-steps // parts)


def uses_tiles() -> bool:
    """Whether products use tiles: of the matrix unit, or emulated ones in tests."""
    return has_matrix_unit() or emulates_tiles()


def lay_panels(weight: torch.Tensor) -> torch.Tensor:
    """Copies a bfloat16 weight [out, in] into panels; the shape stays the same.

    Both dimensions are multiples of 32.
    """
    outputs, inputs = weight.shape
    pairs = weight.view(outputs // OUTPUTS, OUTPUTS, inputs // 2, 2)
    return pairs.transpose(1, 2).contiguous().view(outputs, inputs)


def _open_tiles(_: object) -> tuple[Signature, Emit]:
    """Configures all tiles; returns the state for `close_tiles`."""

    def emit(
        _: Any, builder: ir.IRBuilder, __: object, ___: list[ir.Value]
    ) -> ir.Value:
        before = configure_tiles(builder, dict.fromkeys(range(8), INT8(ROWS)))
        return builder.ptrtoint(before, INT64)

    return types.intp(), emit


def _close_tiles(_: object, before: Any) -> tuple[Signature, Emit]:
    """Restores the configuration of the tiles."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        restore_tiles(builder, builder.inttoptr(args[0], INT8.as_pointer()))
        return context.get_dummy_value()

    return types.void(before), emit


def _own_memory(_: object, count: Any) -> tuple[Signature, Emit]:
    """Returns the address of `count` bytes on the stack."""
    size = count.literal_value

    def emit(
        _: Any, builder: ir.IRBuilder, __: object, ___: list[ir.Value]
    ) -> ir.Value:
        return builder.ptrtoint(own_bytes(builder, size), INT64)

    return types.intp(count), emit


def _multiply_panel(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    row_bytes: Any,
    weights: Any,
    steps: Any,
    sums: Any,
    ahead: Any,
    line: Any,
    lines: Any,
    earlier: Any,
    bias: Any,
    residual: Any,
    output: Any,
    stride: Any,
    goes_on: Any,
    in_blocks: Any,
    width: Any,
    kind: Any,
) -> tuple[Signature, Emit]:
    """sums[r, o] = Σ values[r, i] · weights[o, i], for 32 rows and a panel.

    Computes `steps` times 32 inputs, and adds to the present sums if it `goes_on`.
    Rows outside of blocks are `row_bytes` apart. Meanwhile prefetches `lines` cache
    lines in each step of the panel at `ahead`, from its line number `line` on, and
    finishes the `earlier` sums as `finish_sums` does, unless their address is 0.
    """
    given = (
        *(values, row_bytes, weights, steps, sums, ahead, line, lines),
        *(earlier, bias, residual, output, stride, goes_on),
    )
    signature = types.void(*[types.intp for _ in given], in_blocks, width, kind)
    blocks, pitch_bytes = in_blocks.literal_value, 4 * width.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, pitch, panel, count, totals, coming, asked, wanted = args[:8]
        done, finish = args[8], Finish(*args[9:13], kind=kind.literal_value)
        sides = _Sides(source, None if blocks else pitch, panel, pitch_bytes)
        places = _open_sums(builder, totals, args[13])
        last = builder.sub(count, INT64(1))
        is_there = builder.icmp_signed("!=", done, INT64(0))
        height = builder.select(is_there, INT64(HEIGHT), INT64(0))
        share = builder.add(builder.udiv(INT64(HEIGHT), count), INT64(1))
        with cgutils.for_range(builder, last, intp=INT64) as loop:
            _load_step(builder, sides, loop.index)
            for each in _SUMS:
                multiply_tiles(builder, each, _OWN[each // 2], _OTHERS[each % 2])
            first = builder.add(asked, builder.mul(loop.index, wanted))
            _prefetch_lines(builder, coming, pitch_bytes, first, wanted)
            row = builder.mul(loop.index, share)
            bounds = (row, _smaller(builder, builder.add(row, share), height))
            finish.rows(builder, done, bounds)
        _load_step(builder, sides, last)
        for each, place in zip(_SUMS, places, strict=True):
            # stores a sum while the next one is computed
            multiply_tiles(builder, each, _OWN[each // 2], _OTHERS[each % 2])
            store_tile(builder, each, place, 128)
        bounds = (builder.mul(last, share), height)
        finish.rows(builder, done, bounds)
        return context.get_dummy_value()

    return signature, emit


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both factors of a product.

    Attributes:
        rows: Address of the rows.
        row_bytes: Bytes from row to row; None if they lie in blocks.
        panel: Address of the panel.
        pitch_bytes: Bytes from one pair of inputs to the next.
    """

    rows: ir.Value
    row_bytes: ir.Value | None
    panel: ir.Value
    pitch_bytes: int


def _load_step(builder: ir.IRBuilder, sides: _Sides, index: ir.Value) -> None:
    """Loads the tiles of 32 inputs."""
    if sides.row_bytes is not None:
        _load_tiles(builder, sides, index, stays=True)
        return
    stays = builder.icmp_signed("<", index, INT64(STAYING))
    with builder.if_else(stays) as (staying, passing):
        with staying:
            _load_tiles(builder, sides, index, stays=True)
        with passing:
            _load_tiles(builder, sides, index, stays=False)


def _load_tiles(
    builder: ir.IRBuilder, sides: _Sides, index: ir.Value, *, stays: bool
) -> None:
    """Loads them; the panel's stay in the L1 cache, or bypass it."""
    panel = offset(builder, sides.panel, index, ROWS * sides.pitch_bytes)
    for at, each in enumerate(_OTHERS):
        place = offset(builder, panel, at, _ROW_BYTES)
        load_tile(builder, each, place, sides.pitch_bytes, passes_by=not stays)
    in_blocks = sides.row_bytes is None
    pitch = INT64(_ROW_BYTES) if in_blocks else sides.row_bytes
    step = BLOCK_BYTES if in_blocks else _ROW_BYTES
    rows = offset(builder, sides.rows, index, step)
    half = builder.add(rows, builder.mul(pitch, INT64(ROWS)))
    for each, place in zip(_OWN, (rows, half), strict=True):
        load_tile(builder, each, place, pitch, passes_by=in_blocks)


def _open_sums(
    builder: ir.IRBuilder, sums: ir.Value, goes_on: ir.Value
) -> list[ir.Value]:
    """Loads sums into tiles, or clears the tiles; returns the sums' addresses."""
    places = [
        builder.add(sums, INT64(each // 2 * ROWS * 128 + each % 2 * _ROW_BYTES))
        for each in _SUMS
    ]
    is_begun = builder.icmp_signed("!=", goes_on, INT64(0))
    with builder.if_else(is_begun) as (begun, new):
        with begun:
            for each, place in zip(_SUMS, places, strict=True):
                load_tile(builder, each, place, 128)
        with new:
            for each in _SUMS:
                clear_tile(builder, each)
    return places


def _prefetch_lines(
    builder: ir.IRBuilder,
    panel: ir.Value,
    pitch_bytes: int,
    first: ir.Value,
    count: ir.Value,
) -> None:
    """Prefetches cache lines of a later panel."""
    with cgutils.for_range(builder, count, intp=INT64) as loop:
        index = builder.add(first, loop.index)
        place = offset(builder, panel, builder.lshr(index, INT64(1)), pitch_bytes)
        side = builder.and_(index, INT64(1))
        prefetch(builder, offset(builder, place, side, CACHE_LINE), range(1))


def _smaller(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", left, right), left, right)


open_tiles: Any = intrinsic(_open_tiles)
close_tiles: Any = intrinsic(_close_tiles)
own_memory: Any = intrinsic(prefer_literal=True)(_own_memory)
multiply_panel: Any = intrinsic(prefer_literal=True)(_multiply_panel)
