"""Products of some rows with quantized weights, on the CPU's matrix unit (AMX).

The codes of 32 inputs are expanded to bfloat16 in the L1 cache, exactly, and multiplied
as tiles. The sums of a group leave the tiles, are scaled, and added to the total.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    store_tile,
)
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.finishing import add_rows
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import own_memory
from hookline_kernels.cpu.quantized_codes import code_pairs, half_bytes, load_halves
from hookline_kernels.cpu.quantized_sums import SUMS_BYTES, sum_groups
from hookline_kernels.cpu.vectors import (
    INT64,
    Emit,
    constant,
    load,
    load_number,
    multiply_add,
    offset,
    prefetch,
    splat,
    store,
)
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT

MOST_ROWS = 2 * ROWS
_AHEAD = 4096
"""Prefetch distance, in bytes."""
_STEPS = 4
"""Expanded steps of 32 inputs in memory: tiles wait for the first while the next are
written."""
_STEP_BYTES = DEPTH * OUTPUTS * 2
_PITCH = 4 * OUTPUTS
"""Bytes of a pair of inputs of a panel; also of a row of sums."""


@functools.cache
def tiles_kernel(bits: int, has_shifts: bool) -> Kernel:
    """Compiles the kernel for up to `MOST_ROWS` rows.

    Its arguments are those of `few_rows_kernel`.
    """
    unit_bytes = 2 * half_bytes(bits)
    room = SUMS_BYTES if has_shifts else HALF

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        inputs, outputs, rows, group = given[1], given[2], given[3], given[4]
        units, groups = inputs // UNIT, inputs // group
        sums = own_memory(room)
        panel = take(numbers, 1)
        if has_shifts and panel < outputs // OUTPUTS:
            sum_groups(given[10], rows, inputs, group, sums, 2)
        while panel < outputs // OUTPUTS:
            at = panel * OUTPUTS
            codes = given[5] + panel * units * unit_bytes
            scales, shifts = given[6] + 4 * at * groups, given[7] + 4 * at * groups
            bias = given[8] + 2 * at if given[8] else 0
            residual = given[9] + 2 * at if given[9] else 0
            output = given[11] + 2 * at
            if rows > ROWS:
                multiply_groups(
                    given[10],
                    codes,
                    scales,
                    shifts,
                    bias,
                    residual,
                    output,
                    sums,
                    inputs,
                    outputs,
                    group,
                    rows,
                    2,
                    bits,
                    has_shifts,
                )
            else:
                multiply_groups(
                    given[10],
                    codes,
                    scales,
                    shifts,
                    bias,
                    residual,
                    output,
                    sums,
                    inputs,
                    outputs,
                    group,
                    rows,
                    1,
                    bits,
                    has_shifts,
                )
            panel = take(numbers, 1)

    return Kernel(multiply, f"quantized-tiles-{bits}-{int(has_shifts)}")


def _multiply_groups(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    codes: Any,
    scales: Any,
    shifts: Any,
    bias: Any,
    residual: Any,
    output: Any,
    sums: Any,
    inputs: Any,
    outputs: Any,
    group: Any,
    rows: Any,
    tiles: Any,
    bits: Any,
    has_shifts: Any,
) -> tuple[Signature, Emit]:
    """Multiplies up to 16 rows for each of `tiles` with a panel.

    `tiles`, `bits` and `has_shifts` are literals; the other arguments are addresses, 0
    if absent, and counts.
    """
    addresses = (values, codes, scales, shifts, bias, residual, output, sums)
    given = (*addresses, inputs, outputs, group, rows)
    signature = types.void(*[types.intp for _ in given], tiles, bits, has_shifts)
    high, code_bits = tiles.literal_value, bits.literal_value
    is_shifted = bool(has_shifts.literal_value)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, scale, shift, extra, more, target, own = args[:8]
        length, stride, per_group, count = args[8:12]
        tile = _TileRows(builder, source, length, count, high)
        steps = _Steps(builder, panel, code_bits)
        totals = _Totals(builder, count, scale, shift if is_shifted else None, own)
        totals.clear(builder)
        before = tile.begin(builder)
        groups = builder.udiv(length, per_group)
        in_group = builder.udiv(per_group, INT64(DEPTH))
        with cgutils.for_range(builder, groups, intp=INT64) as loop:
            for each in tile.sums:
                clear_tile(builder, each)
            first = builder.mul(loop.index, in_group)
            with cgutils.for_range(builder, in_group, intp=INT64) as inner:
                step = builder.add(first, inner.index)
                tile.multiply(builder, step, steps.expand(builder, step))
            tile.store(builder, totals.group)
            totals.add(builder, loop.index, groups)
        end(builder, before)
        add_rows(
            builder,
            totals.address,
            (INT64(0), count),
            shift=extra,
            extra=more,
            target=target,
            stride=stride,
        )
        return context.get_dummy_value()

    return signature, emit


class _Steps:
    """A panel's steps of 32 inputs, expanded one after another."""

    def __init__(self, builder: ir.IRBuilder, panel: ir.Value, bits: int) -> None:
        self._panel, self._bits = panel, bits
        room = own_bytes(builder, _STEPS * _STEP_BYTES)
        self._room = builder.ptrtoint(room, INT64)

    def expand(self, builder: ir.IRBuilder, step: ir.Value) -> ir.Value:
        """Returns the address of a step's pairs, bfloat16 [16, 32, 2]."""
        half, units = half_bytes(self._bits), DEPTH // UNIT
        place = builder.and_(step, INT64(_STEPS - 1))
        place = offset(builder, self._room, place, _STEP_BYTES)
        line = offset(builder, self._panel, step, 2 * units * half)
        prefetch(builder, line, range(_AHEAD, _AHEAD + 2 * units * half))
        for part in range(2 * units):
            codes = builder.add(line, INT64(part * half))
            for at, pair in enumerate(code_pairs(builder, codes, self._bits)):
                row = (part // 2 * (UNIT // 2) + at) * _PITCH + part % 2 * 4 * HALF
                there = builder.add(place, INT64(row))
                pointer = builder.inttoptr(there, pair.type.as_pointer())
                builder.store(pair, pointer, align=64)
        return place


class _TileRows:
    """Rows in tiles, and the sums of their products with a panel."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        values: ir.Value,
        inputs: ir.Value,
        rows: ir.Value,
        tiles: int,
    ) -> None:
        self._values, self._row_bytes = values, builder.mul(inputs, INT64(2))
        self._last = builder.trunc(builder.sub(rows, INT64(ROWS * (tiles - 1))), INT8)
        self.sums = range(2 * tiles)
        self._own, self._others = range(4, 4 + tiles), (6, 7)

    def begin(self, builder: ir.IRBuilder) -> ir.Value:
        """Configures the tiles; returns the state for `end`."""
        heights = dict.fromkeys((*self.sums, *self._own, *self._others), INT8(ROWS))
        heights |= dict.fromkeys((*self.sums[-2:], self._own[-1]), self._last)
        return begin(builder, heights)

    def multiply(self, builder: ir.IRBuilder, step: ir.Value, pairs: ir.Value) -> None:
        """Adds the products of 32 inputs."""
        for index, each in enumerate(self._own):
            start = builder.mul(self._row_bytes, INT64(ROWS * index))
            start = builder.add(self._values, start)
            at = offset(builder, start, step, 2 * DEPTH)
            load_tile(builder, each, at, self._row_bytes)
        for index, each in enumerate(self._others):
            load_tile(builder, each, offset(builder, pairs, index, 4 * HALF), _PITCH)
        for each in self.sums:
            own, others = self._own[each // 2], self._others[each % 2]
            multiply_tiles(builder, each, own, others)

    def store(self, builder: ir.IRBuilder, target: ir.Value) -> None:
        """Writes the sums, float32 [rows, 32]."""
        for each in self.sums:
            at = each // 2 * ROWS * _PITCH + each % 2 * 4 * HALF
            store_tile(builder, each, builder.add(target, INT64(at)), _PITCH)


@dataclass(init=False)
class _Totals:
    """Scaled sums of all groups, and those of one group.

    Attributes:
        address: Of the totals, float32 [rows, 32].
        group: Address of a group's sums, likewise.
    """

    address: ir.Value
    group: ir.Value

    def __init__(
        self,
        builder: ir.IRBuilder,
        rows: ir.Value,
        scales: ir.Value,
        shifts: ir.Value | None,
        sums: ir.Value,
    ) -> None:
        self._rows, self._scales, self._shifts, self._sums = rows, scales, shifts, sums
        self.address, self.group = (
            builder.ptrtoint(own_bytes(builder, MOST_ROWS * _PITCH), INT64)
            for _ in range(2)
        )

    def clear(self, builder: ir.IRBuilder) -> None:
        vectors = builder.mul(self._rows, INT64(2))
        with cgutils.for_range(builder, vectors, intp=INT64) as loop:
            at = offset(builder, self.address, loop.index, 4 * HALF)
            store(builder, constant(0.0, HALF), at)

    def add(self, builder: ir.IRBuilder, group: ir.Value, groups: ir.Value) -> None:
        """Adds a group's sums, scaled, and its shifts."""
        scales = load_halves(builder, self._scales, group)
        shifts = load_halves(builder, self._shifts, group) if self._shifts else ()
        with cgutils.for_range(builder, self._rows, intp=INT64) as loop:
            row = loop.index
            for half, scale in enumerate(scales):
                at = builder.add(builder.mul(row, INT64(2)), INT64(half))
                place = offset(builder, self.address, at, 4 * HALF)
                own = load(builder, offset(builder, self.group, at, 4 * HALF), HALF)
                total = load(builder, place, HALF)
                total = multiply_add(builder, own, scale, total)
                if shifts:
                    index = builder.add(builder.mul(row, groups), group)
                    number = load_number(builder, offset(builder, self._sums, index, 4))
                    number = splat(builder, number, HALF)
                    total = multiply_add(builder, number, shifts[half], total)
                store(builder, total, place)


multiply_groups: Any = intrinsic(prefer_literal=True)(_multiply_groups)
