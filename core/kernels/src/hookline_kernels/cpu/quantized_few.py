"""Products of a few rows with quantized weights, at the speed of memory.

Codes are expanded in registers and multiplied there, by dot products of pairs of
bfloat16 where the CPU has them, else in float32. A group's sum is scaled once.
"""

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.bfloat_pairs import add_dots, widened_pairs
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.quantized_codes import (
    code_floats,
    code_pairs,
    half_bytes,
    load_halves,
)
from hookline_kernels.cpu.quantized_panels import panels_kernel
from hookline_kernels.cpu.vector_panels import has_quick_pairs
from hookline_kernels.cpu.vectors import (
    INT32,
    INT64,
    Emit,
    added,
    added_at,
    constant,
    load_number,
    multiply_add,
    offset,
    prefetch,
    splat,
    store,
)
from hookline_kernels.quantized_weight import HALF, UNIT

_AT_ONCE = (4, 2, 1)
"""Numbers of rows that share the expansion of a code."""
_CHAINS = 8
"""Sums that are independent of one another, to hide the latency of an addition."""
_AHEAD = 4096
"""Prefetch distance, in bytes."""


@functools.cache
def few_rows_kernel(bits: int, size: int, has_shifts: bool) -> Kernel:
    """Compiles the kernel for codes of `bits` bits and values of `size` bytes.

    Its arguments are those of `quantized_panels`.
    """
    return panels_kernel("few", multiply_codes, bits, size, has_shifts)


def _multiply_codes(  # noqa: PLR0917 - numba passes by position
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
    """Multiplies rows with a panel; the arguments are those of `panels_kernel`."""
    addresses = (values, codes, scales, shifts, bias, residual, output, sums)
    given = (*addresses, inputs, outputs, group, rows)
    signature = types.void(*[types.intp for _ in given], bits, size, has_shifts)
    literals = {
        "bits": bits.literal_value,
        "size": size.literal_value,
        "has_shifts": bool(has_shifts.literal_value),
    }

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        panel, count = _Panel(*args[:11], **literals), args[11]
        most = _AT_ONCE[0]
        whole = builder.udiv(count, INT64(most))
        with cgutils.for_range(builder, whole, intp=INT64) as loop:
            panel.multiply(builder, builder.mul(loop.index, INT64(most)), most)
        for high in _AT_ONCE[1:]:
            has_them = builder.and_(count, INT64(high))
            with builder.if_then(builder.icmp_unsigned("!=", has_them, INT64(0))):
                row = builder.and_(count, INT64(-2 * high))
                panel.multiply(builder, row, high)
        return context.get_dummy_value()

    return signature, emit


@dataclass(frozen=True, slots=True)
class _Panel:
    """Addresses and counts of a product with one panel, and its literals."""

    values: ir.Value
    codes: ir.Value
    scales: ir.Value
    shifts: ir.Value
    bias: ir.Value
    residual: ir.Value
    output: ir.Value
    sums: ir.Value
    inputs: ir.Value
    outputs: ir.Value
    group: ir.Value
    bits: int
    size: int
    has_shifts: bool

    @property
    def has_dots(self) -> bool:
        return self.size == 2 and has_quick_pairs()

    def multiply(self, builder: ir.IRBuilder, row: ir.Value, high: int) -> None:
        """Multiplies `high` rows from `row` on."""
        zero = constant(0.0, HALF)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2 * high)]
        chains = [
            [cgutils.alloca_once(builder, zero.type) for _ in range(_chains(high))]
            for _ in totals
        ]
        groups = builder.udiv(self.inputs, self.group)
        units = builder.udiv(self.group, INT64(UNIT))
        with cgutils.for_range(builder, groups, intp=INT64) as loop:
            for place in (place for each in chains for place in each):
                builder.store(zero, place)
            first = builder.mul(loop.index, units)
            with cgutils.for_range(builder, units, intp=INT64) as inner:
                unit = builder.add(first, inner.index)
                self._add_unit(builder, row, unit, chains)
            self._add_group(builder, row, loop.index, chains, totals)
        self._finish(builder, row, totals)

    def _add_unit(
        self,
        builder: ir.IRBuilder,
        row: ir.Value,
        unit: ir.Value,
        chains: list[list[ir.Value]],
    ) -> None:
        """Adds the products of 8 inputs."""
        half = half_bytes(self.bits)
        line = offset(builder, self.codes, unit, 2 * half)
        prefetch(builder, line, range(_AHEAD, _AHEAD + 2 * half))
        expand = code_pairs if self.has_dots else code_floats
        multiply = add_dots if self.has_dots else multiply_add
        factors = [
            self._factors(builder, builder.add(row, INT64(at)), unit)
            for at in range(len(chains) // 2)
        ]
        for side in range(2):
            codes = expand(builder, offset(builder, line, side, half), self.bits)
            for at, weights in enumerate(codes):
                for index, values in enumerate(factors):
                    own = chains[2 * index + side]
                    place = own[at % len(own)]
                    total = multiply(builder, values[at], weights, builder.load(place))
                    builder.store(total, place)

    def _factors(
        self, builder: ir.IRBuilder, row: ir.Value, unit: ir.Value
    ) -> list[ir.Value]:
        """Returns a row's 8 inputs, or 4 pairs of them, each in all lanes."""
        start = builder.mul(builder.mul(row, self.inputs), INT64(self.size))
        start = builder.add(self.values, start)
        start = offset(builder, start, unit, UNIT * self.size)
        if self.size == 4:
            numbers = (offset(builder, start, at, 4) for at in range(UNIT))
            return [splat(builder, load_number(builder, at), HALF) for at in numbers]
        found: list[ir.Value] = []
        for at in range(UNIT // 2):
            place = builder.inttoptr(offset(builder, start, at, 4), INT32.as_pointer())
            pair = splat(builder, builder.load(place, align=2), HALF)
            if self.has_dots:
                found.append(pair)
                continue
            found += widened_pairs(builder, pair)
        return found

    def _add_group(
        self,
        builder: ir.IRBuilder,
        row: ir.Value,
        group: ir.Value,
        chains: list[list[ir.Value]],
        totals: list[ir.Value],
    ) -> None:
        """Scales a group's sums, and adds its shifts."""
        scales = load_halves(builder, self.scales, group)
        shifts = load_halves(builder, self.shifts, group) if self.has_shifts else ()
        groups = builder.udiv(self.inputs, self.group)
        for at, place in enumerate(totals):
            first, *others = (builder.load(each) for each in chains[at])
            for each in others:
                first = added(builder, first, each)
            total = multiply_add(builder, first, scales[at % 2], builder.load(place))
            if self.has_shifts:
                own = builder.mul(builder.add(row, INT64(at // 2)), groups)
                own = offset(builder, self.sums, builder.add(own, group), 4)
                number = splat(builder, load_number(builder, own), HALF)
                total = multiply_add(builder, number, shifts[at % 2], total)
            builder.store(total, place)

    def _finish(
        self, builder: ir.IRBuilder, row: ir.Value, totals: list[ir.Value]
    ) -> None:
        """Adds bias and residual, and stores the result."""
        for at, place in enumerate(totals):
            side = INT64(at % 2 * HALF)
            here = builder.mul(builder.add(row, INT64(at // 2)), self.outputs)
            here = builder.add(here, side)
            total = added_at(builder, builder.load(place), self.bias, side, self.size)
            total = added_at(builder, total, self.residual, here, self.size)
            at_output = offset(builder, self.output, here, self.size)
            store(builder, total, at_output, self.size)


def _chains(rows: int) -> int:
    """Returns the number of independent sums of a row and half."""
    return max(1, _CHAINS // (2 * rows))


multiply_codes: Any = intrinsic(prefer_literal=True)(_multiply_codes)
