"""Products of blocks of integer rows with panels of quantized weights, in registers.

A quad of a row's codes is broadcast and multiplied with those of all outputs
(`integer_dots`). The sums of a group of inputs are exact; they are scaled and added to
the block's sums in float32, group by group, so that a token's result does not depend on
the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.integer_dots import Dots, code_quads
from hookline_kernels.cpu.integer_rows import Blocks, blocks_of
from hookline_kernels.cpu.quantized_codes import half_bytes
from hookline_kernels.cpu.vectors import (
    INT32,
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
from hookline_kernels.quantized_weight import OUTPUTS, UNIT

_HEIGHTS = (1, 2, 4, 8, 12) if LANES == 16 else (1, 2, 4)
"""Numbers of rows that have code of their own."""
_CHAINS = 4
"""Sums that are independent of one another, at least: a dot product takes so long."""
_AHEAD = 4096
"""Prefetch distance, in bytes."""


def _multiply_bytes(  # noqa: PLR0917 - numba passes by position
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
    """sums[r, o] += Σ rows[r, i] · panel[o, i], for at least `height` rows of a block.

    Computes `groups` groups of inputs, of `rows` and `codes` from their addresses on;
    the first of them is `first`, and `in_scale` of them share a scale of the weight.
    If `first` is 0 the sums begin with zero. `group`, `bits` and `has_shifts` are
    literals.
    """
    given = (rows, codes, scales, shifts, groups, first, in_scale, sums, height)
    literals = {
        "blocks": blocks_of(group.literal_value, in_tiles=False),
        "bits": bits.literal_value,
        "has_shifts": bool(has_shifts.literal_value),
    }

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        panel = _Panel(*args[:8], **literals)
        panel.multiply_least(builder, args[8], _HEIGHTS)
        return context.get_dummy_value()

    signature = types.void(*[types.intp for _ in given], group, bits, has_shifts)
    return signature, emit


@dataclass(frozen=True, slots=True)
class _Panel:
    """Addresses and counts of a product with one panel, and its literals."""

    rows: ir.Value
    codes: ir.Value
    scales: ir.Value
    shifts: ir.Value
    groups: ir.Value
    first: ir.Value
    in_scale: ir.Value
    sums: ir.Value
    blocks: Blocks
    bits: int
    has_shifts: bool

    def multiply_least(
        self, builder: ir.IRBuilder, count: ir.Value, heights: tuple[int, ...]
    ) -> None:
        """Takes the least of these numbers of rows that is enough."""
        high, *others = heights
        if not others:
            self._multiply(builder, high)
            return
        is_enough = builder.icmp_signed("<=", count, INT64(high))
        with builder.if_else(is_enough) as (enough, more):
            with enough:
                self._multiply(builder, high)
            with more:
                self.multiply_least(builder, count, tuple(others))

    def _multiply(self, builder: ir.IRBuilder, high: int) -> None:
        self._open(builder, high)
        # Sums of the registers of AVX2 are those of half a panel.
        wide = OUTPUTS if LANES == 16 or high <= 2 else OUTPUTS // 2
        unit_bytes = 2 * half_bytes(self.bits)
        with cgutils.for_range(builder, self.groups, intp=INT64) as loop:
            rows = offset(builder, self.rows, loop.index, self.blocks.group_bytes)
            size = self.blocks.group // UNIT * unit_bytes
            codes = offset(builder, self.codes, loop.index, size)
            index = builder.add(self.first, loop.index)
            index = builder.udiv(index, self.in_scale)
            for start in range(0, OUTPUTS, wide):
                outputs = range(start, start + wide, LANES)
                part = _Part(
                    builder, rows, codes, high, outputs, self.blocks, self.bits
                )
                totals = part.products()
                self._scale(builder, part, index, totals)

    def _open(self, builder: ir.IRBuilder, high: int) -> None:
        """Sets the sums to zero if the first inputs are to come."""
        with builder.if_then(builder.icmp_unsigned("==", self.first, INT64(0))):
            for at in range(0, 4 * high * OUTPUTS, 4 * LANES):
                store(builder, constant(0.0, LANES), builder.add(self.sums, INT64(at)))

    def _scale(
        self,
        builder: ir.IRBuilder,
        part: "_Part",
        index: ir.Value,
        totals: list[list[ir.Value]],
    ) -> None:
        """Adds a group's sums, scaled, and its shifts."""
        scales = self._numbers(builder, self.scales, index, part.outputs)
        shifts = scales
        if self.has_shifts:
            shifts = self._numbers(builder, self.shifts, index, part.outputs)
        for row, line in enumerate(totals):
            scale, total = (part.fact(row, fact) for fact in (0, 2))
            for at, each in enumerate(line):
                place = 4 * (row * OUTPUTS + part.outputs[at])
                address = builder.add(self.sums, INT64(place))
                found = builder.sitofp(each, vector(LANES))
                found = builder.fmul(found, scale)
                before = load(builder, address, LANES)
                found = multiply_add(builder, found, scales[at], before)
                if self.has_shifts:
                    found = multiply_add(builder, total, shifts[at], found)
                store(builder, found, address)

    @staticmethod
    def _numbers(
        builder: ir.IRBuilder, address: ir.Value, index: ir.Value, outputs: range
    ) -> list[ir.Value]:
        """Loads a group's scales or shifts."""
        line = offset(builder, address, index, 4 * OUTPUTS)
        return [
            load(builder, builder.add(line, INT64(4 * at)), LANES) for at in outputs
        ]


class _Part:
    """Products of a group of inputs, of some rows and outputs."""

    def __init__(  # noqa: PLR0917 - made at one place
        self,
        builder: ir.IRBuilder,
        rows: ir.Value,
        codes: ir.Value,
        high: int,
        outputs: range,
        blocks: Blocks,
        bits: int,
    ) -> None:
        self.outputs = outputs
        self._builder, self._rows, self._codes = builder, rows, codes
        self._high, self._blocks, self._bits = high, blocks, bits
        self._chains = max(1, _CHAINS // (high * len(outputs)))

    def products(self) -> list[list[ir.Value]]:
        """Returns the sums of each row, int32."""
        builder = self._builder
        places = [
            [list(self._open(row)) for _ in self.outputs] for row in range(self._high)
        ]
        step = self._blocks.step
        steps = INT64(self._blocks.group // step)
        step_bytes = step // UNIT * 2 * half_bytes(self._bits)
        with cgutils.for_range(builder, steps, intp=INT64) as loop:
            rows = offset(builder, self._rows, loop.index, self._blocks.height * step)
            line = offset(builder, self._codes, loop.index, step_bytes)
            if self.outputs.start == 0:
                prefetch(builder, line, range(_AHEAD, _AHEAD + step_bytes))
            for unit in range(step // UNIT):
                self._add_unit(rows, line, unit, places)
        return [[self._joined(each) for each in line] for line in places]

    def fact(self, row: int, fact: int) -> ir.Value:
        """Returns a row's scale (0) or sum (2), in all lanes."""
        place = self._blocks.fact(self._builder, self._rows, fact)
        place = self._builder.add(place, INT64(4 * row))
        return splat(self._builder, load_number(self._builder, place), LANES)

    def _open(self, row: int) -> Iterator[ir.Value]:
        """Returns variables for a row's sums; the first begins where it has to."""
        place = self._blocks.fact(self._builder, self._rows, 1)
        start = self._word(self._builder.add(place, INT64(4 * row)))
        for _ in range(self._chains):
            yield cgutils.alloca_once_value(self._builder, start)
            start = constant(0, LANES, INT32)

    def _add_unit(
        self,
        rows: ir.Value,
        line: ir.Value,
        unit: int,
        places: list[list[list[ir.Value]]],
    ) -> None:
        builder = self._builder
        start = builder.add(line, INT64(unit * 2 * half_bytes(self._bits)))
        columns = [code_quads(builder, start, at, self._bits) for at in self.outputs]
        for quad in range(2):
            dots = [Dots(builder, each[quad], self._bits) for each in columns]
            for row, own in enumerate(places):
                at = row * self._blocks.step + unit * UNIT + 4 * quad
                word = self._word(builder.add(rows, INT64(at)))
                for each, chains in zip(dots, own, strict=True):
                    place = chains[(2 * unit + quad) % self._chains]
                    builder.store(each.add(word, builder.load(place)), place)

    def _word(self, address: ir.Value) -> ir.Value:
        pointer = self._builder.inttoptr(address, INT32.as_pointer())
        return splat(self._builder, self._builder.load(pointer, align=4), LANES)

    def _joined(self, places: list[ir.Value]) -> ir.Value:
        first, *others = (self._builder.load(each) for each in places)
        for each in others:
            first = self._builder.add(first, each)
        return first


multiply_bytes: Any = intrinsic(prefer_literal=True)(_multiply_bytes)
