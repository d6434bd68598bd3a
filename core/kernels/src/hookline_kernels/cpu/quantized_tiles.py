"""Products of some rows with quantized weights, on the CPU's matrix unit (AMX).

The codes of 32 inputs are expanded to bfloat16 in the L1 cache, exactly, and multiplied
as tiles. The sums of a group leave the tiles, are scaled, and added to the total.
"""

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import DEPTH, own_bytes, restore_tiles
from hookline_kernels.cpu.bfloat_pairs import store_words
from hookline_kernels.cpu.finishing import Finish
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.quantized_codes import code_pairs, half_bytes, load_halves
from hookline_kernels.cpu.quantized_panels import panels_kernel
from hookline_kernels.cpu.tile_rows import MOST_ROWS, TileRows, for_tiles
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
    """Compiles the kernel for up to `MOST_ROWS` rows of bfloat16.

    Its arguments are those of `quantized_panels`.
    """
    return panels_kernel("tiles", multiply_groups, bits, 2, has_shifts)


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
    bits: Any,
    size: Any,
    has_shifts: Any,
) -> tuple[Signature, Emit]:
    """Multiplies up to 32 rows with a panel; as `panels_kernel` describes."""
    addresses = (values, codes, scales, shifts, bias, residual, output, sums)
    given = (*addresses, inputs, outputs, group, rows)
    signature = types.void(*[types.intp for _ in given], bits, size, has_shifts)
    code_bits, is_shifted = bits.literal_value, bool(has_shifts.literal_value)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, scale, shift, *ends, own = args[:8]
        length, stride, per_group, count = args[8:12]
        steps = _Steps(builder, panel, code_bits)
        totals = _Totals(builder, count, scale, shift if is_shifted else None, own)
        totals.clear(builder)
        groups = builder.udiv(length, per_group)
        in_group = builder.udiv(per_group, INT64(DEPTH))

        def multiply_rows(tiles: int) -> None:
            rows = TileRows(builder, source, length, count, tiles)
            before = rows.configure(builder)
            with cgutils.for_range(builder, groups, intp=INT64) as loop:
                rows.clear(builder)
                first = builder.mul(loop.index, in_group)
                with cgutils.for_range(builder, in_group, intp=INT64) as inner:
                    step = builder.add(first, inner.index)
                    rows.multiply(builder, step, steps.expand(builder, step), _PITCH)
                rows.store(builder, totals.group)
                totals.add(builder, loop.index, groups)
            restore_tiles(builder, before)

        for_tiles(builder, count, multiply_rows)
        bias_at, residual_at, output_at = ends
        finish = Finish(bias_at, residual_at, output_at, stride)
        finish.rows(builder, totals.address, (INT64(0), count))
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
                store_words(builder, pair, builder.add(place, INT64(row)), 64)
        return place


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
