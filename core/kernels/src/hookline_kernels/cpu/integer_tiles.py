"""Products of blocks of integer rows with panels, on the CPU's matrix unit (AMX).

8-bit codes are loaded into tiles where they are; 4-bit ones are expanded to bytes in
the L1 cache first. The sums of a group leave the tiles, are scaled, and added to those
of the block, as `integer_blocks` does it, with the same bits.
"""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    INT8,
    ROWS,
    clear_tile,
    configure_tiles,
    load_tile,
    multiply_byte_tiles,
    own_bytes,
    store_tile,
)
from hookline_kernels.cpu.bfloat_pairs import load_words, store_words
from hookline_kernels.cpu.integer_dots import code_quads, zero_of
from hookline_kernels.cpu.integer_rows import Blocks, blocks_of
from hookline_kernels.cpu.quantized_codes import half_bytes, load_halves
from hookline_kernels.cpu.tile_rows import SUMS_PITCH, for_tiles
from hookline_kernels.cpu.vectors import (
    INT64,
    LANES,
    Emit,
    constant,
    load,
    load_number,
    multiply_add,
    offset,
    prefetch,
    splat,
    store,
    vector,
)
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT

_QUAD_BYTES = 4 * OUTPUTS
"""Bytes of a quad of inputs of a panel."""
_ROOMS = 4
"""Expanded steps in memory: tiles wait for the first while the next are written."""
_AHEAD = 4096
"""Prefetch distance, in bytes."""
_ROW_TILES, _CODE_TILES = (4, 5), (6, 7)


def _open_byte_tiles(_: object, step: Any) -> tuple[Signature, Emit]:
    """Configures tiles for `step` inputs at a time; returns the earlier state."""
    inputs = step.literal_value

    def emit(
        _: Any, builder: ir.IRBuilder, __: object, ___: list[ir.Value]
    ) -> ir.Value:
        heights = dict.fromkeys(range(6), INT8(ROWS))
        heights |= dict.fromkeys(_CODE_TILES, INT8(inputs // 4))
        before = configure_tiles(builder, heights, dict.fromkeys(_ROW_TILES, inputs))
        return builder.ptrtoint(before, INT64)

    return types.intp(step), emit


def _multiply_in_tiles(  # noqa: PLR0917 - numba passes by position
    _: object,
    rows: Any,
    codes: Any,
    scales: Any,
    shifts: Any,
    groups: Any,
    first: Any,
    in_scale: Any,
    sums: Any,
    height: Any,
    group: Any,
    bits: Any,
    has_shifts: Any,
) -> tuple[Signature, Emit]:
    """As `integer_blocks.multiply_bytes`, of at most 32 rows."""
    given = (rows, codes, scales, shifts, groups, first, in_scale, sums, height)
    literals = {
        "blocks": blocks_of(group.literal_value, in_tiles=True),
        "bits": bits.literal_value,
        "has_shifts": bool(has_shifts.literal_value),
    }

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        panel = _Panel(builder, *args[:9], **literals)
        panel.open()
        for_tiles(builder, args[8], panel.multiply)
        return context.get_dummy_value()

    signature = types.void(*[types.intp for _ in given], group, bits, has_shifts)
    return signature, emit


@dataclass(frozen=True, slots=True)
class _Panel:
    """Addresses and counts of a product with one panel, and its literals."""

    builder: ir.IRBuilder
    rows: ir.Value
    codes: ir.Value
    scales: ir.Value
    shifts: ir.Value
    groups: ir.Value
    first: ir.Value
    in_scale: ir.Value
    sums: ir.Value
    height: ir.Value
    blocks: Blocks
    bits: int
    has_shifts: bool

    def open(self) -> None:
        """Sets the sums to zero if the first inputs are to come."""
        builder = self.builder
        is_first = builder.icmp_unsigned("==", self.first, INT64(0))
        vectors = builder.select(is_first, builder.mul(self.height, INT64(2)), INT64(0))
        with cgutils.for_range(builder, vectors, intp=INT64) as loop:
            at = offset(builder, self.sums, loop.index, 4 * HALF)
            store(builder, constant(0.0, HALF), at)

    def multiply(self, tiles: int) -> None:
        """Multiplies rows that fill so many tiles."""
        builder, blocks = self.builder, self.blocks
        steps = blocks.group // blocks.step
        found, room = (
            builder.ptrtoint(own_bytes(builder, count), INT64)
            for count in (blocks.sum_bytes, _ROOMS * blocks.step // 4 * _QUAD_BYTES)
        )
        with cgutils.for_range(builder, self.groups, intp=INT64) as loop:
            rows = offset(builder, self.rows, loop.index, blocks.group_bytes)
            for each in range(2 * tiles):
                clear_tile(builder, each)
            for step in range(steps):
                index = builder.add(builder.mul(loop.index, INT64(steps)), INT64(step))
                own = builder.add(rows, INT64(step * blocks.height * blocks.step))
                self._add_step(own, self._quads(index, room), tiles)
            for each in range(2 * tiles):
                at = each // 2 * ROWS * SUMS_PITCH + each % 2 * 4 * HALF
                store_tile(builder, each, builder.add(found, INT64(at)), SUMS_PITCH)
            index = builder.udiv(builder.add(self.first, loop.index), self.in_scale)
            self._scale(rows, found, index)

    def _quads(self, step: ir.Value, room: ir.Value) -> ir.Value:
        """Returns the address of a step's codes in bytes, [quads, 32, 4]."""
        builder = self.builder
        units, unit_bytes = self.blocks.step // UNIT, 2 * half_bytes(self.bits)
        line = offset(builder, self.codes, step, units * unit_bytes)
        prefetch(builder, line, range(_AHEAD, _AHEAD + units * unit_bytes))
        if self.bits == 8:
            return line
        place = builder.and_(step, INT64(_ROOMS - 1))
        place = offset(builder, room, place, 2 * units * _QUAD_BYTES)
        kind = vector(4 * LANES, INT8)
        zero = constant(zero_of(self.bits), 4 * LANES, INT8)
        for unit in range(units):
            own = builder.add(line, INT64(unit * unit_bytes))
            for first in range(0, OUTPUTS, LANES):
                for at, quad in enumerate(code_quads(builder, own, first, self.bits)):
                    signed = builder.sub(builder.bitcast(quad, kind), zero)
                    there = (2 * unit + at) * _QUAD_BYTES + 4 * first
                    store_words(builder, signed, builder.add(place, INT64(there)))
        return place

    def _add_step(self, rows: ir.Value, quads: ir.Value, tiles: int) -> None:
        """Adds the products of the inputs of one tile."""
        builder, step = self.builder, self.blocks.step
        for index, each in enumerate(_ROW_TILES[:tiles]):
            at = builder.add(rows, INT64(index * ROWS * step))
            load_tile(builder, each, at, step)
        for index, each in enumerate(_CODE_TILES):
            at = builder.add(quads, INT64(index * 4 * HALF))
            load_tile(builder, each, at, _QUAD_BYTES)
        for each in range(2 * tiles):
            own, other = _ROW_TILES[each // 2], _CODE_TILES[each % 2]
            multiply_byte_tiles(builder, each, own, other)

    def _scale(self, rows: ir.Value, found: ir.Value, index: ir.Value) -> None:
        """Adds a group's sums, scaled, and its shifts."""
        builder = self.builder
        scales = load_halves(builder, self.scales, index)
        shifts = load_halves(builder, self.shifts, index) if self.has_shifts else ()
        with cgutils.for_range(builder, self.height, intp=INT64) as loop:
            scale, total = (
                splat(builder, load_number(builder, at), HALF)
                for at in (
                    offset(builder, self.blocks.fact(builder, rows, fact), row, 4)
                    for row in (loop.index,)
                    for fact in (0, 2)
                )
            )
            for half in range(2):
                at = builder.add(builder.mul(loop.index, INT64(2)), INT64(half))
                own = load_words(builder, offset(builder, found, at, 4 * HALF), HALF)
                place = offset(builder, self.sums, at, 4 * HALF)
                number = builder.fmul(builder.sitofp(own, vector(HALF)), scale)
                before = load(builder, place, HALF)
                number = multiply_add(builder, number, scales[half], before)
                if self.has_shifts:
                    number = multiply_add(builder, total, shifts[half], number)
                store(builder, number, place)


open_byte_tiles: Any = intrinsic(prefer_literal=True)(_open_byte_tiles)
multiply_in_tiles: Any = intrinsic(prefer_literal=True)(_multiply_in_tiles)
