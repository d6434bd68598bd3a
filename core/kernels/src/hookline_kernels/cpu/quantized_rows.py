"""Products of rows with quantized weights in float32 vectors, on every CPU.

256 inputs of a panel are expanded to float32, scaled, and stay in the L1 cache while
rows are multiplied with them, a few at a time, whose sums stay in registers.
"""

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.finishing import AS_THEY_ARE, finish_sums
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import own_memory
from hookline_kernels.cpu.quantized_codes import half_bytes
from hookline_kernels.cpu.quantized_expansion import expand
from hookline_kernels.cpu.vectors import (
    INT64,
    LANES,
    Emit,
    load,
    load_number,
    multiply_add,
    offset,
    splat,
    store,
)
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT

_AT_ONCE = 8 if LANES == HALF else 2
"""Rows whose sums fill at most half of the registers."""
_INPUTS = 256
"""Inputs of a panel that are expanded at a time."""
_MOST_ROWS = 128
"""Rows that a thread takes at a time."""
_PITCH = 4 * OUTPUTS
"""Bytes of a row of sums, or of an input of a panel, in float32."""


@functools.cache
def rows_kernel(bits: int, size: int, has_shifts: bool) -> Kernel:
    """Compiles the kernel for codes of `bits` bits and values of `size` bytes.

    Its arguments are those of `quantized_panels`.
    """
    unit_bytes = 2 * half_bytes(bits)
    sums_bytes = _MOST_ROWS * _PITCH
    weights_bytes, values_bytes = _INPUTS * _PITCH, 4 * _AT_ONCE * _INPUTS

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        inputs, outputs, rows, group = given[1], given[2], given[3], given[4]
        units, groups, panels = inputs // UNIT, inputs // group, outputs // OUTPUTS
        pieces = (rows + _MOST_ROWS - 1) // _MOST_ROWS
        sums, weights = own_memory(sums_bytes), own_memory(weights_bytes)
        values = own_memory(values_bytes)
        task = take(numbers, 1)
        while task < panels * pieces:
            at, first = task % panels * OUTPUTS, task // panels * _MOST_ROWS
            count = min(_MOST_ROWS, rows - first)
            codes = given[5] + at // OUTPUTS * units * unit_bytes
            for begun in range(0, inputs, _INPUTS):
                length = min(_INPUTS, inputs - begun)
                expand(
                    codes,
                    given[6] + 4 * at * groups,
                    given[7] + 4 * at * groups,
                    weights,
                    begun // UNIT,
                    length // UNIT,
                    group // UNIT,
                    bits,
                    4,
                    has_shifts,
                )
                for row in range(0, count, _AT_ONCE):
                    source = given[10] + size * ((first + row) * inputs + begun)
                    left = min(_AT_ONCE, count - row)
                    copy_rows(source, left, inputs, length, values, size)
                    multiply_floats(values, weights, sums + row * _PITCH, length, begun)
            here = size * (first * outputs + at)
            finish_sums(
                sums,
                count,
                given[8] + size * at if given[8] else 0,
                given[9] + here if given[9] else 0,
                given[11] + here,
                outputs,
                AS_THEY_ARE,
                size,
            )
            task = take(numbers, 1)

    return Kernel(multiply, f"quantized-rows-{bits}-{size}-{int(has_shifts)}")


def _copy_rows(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    rows: Any,
    stride: Any,
    count: Any,
    target: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Copies numbers of `size` bytes (a literal) of each row as float32.

    Repeats the last of `rows` rows up to `_AT_ONCE`.
    """
    integers = [types.intp for _ in (values, rows, stride, count, target)]
    signature = types.void(*integers, size)
    width = size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, height, pitch, length, output = args[:5]
        last = builder.sub(height, INT64(1))
        vectors = builder.udiv(length, INT64(HALF))
        for row in range(_AT_ONCE):
            is_there = builder.icmp_signed("<", INT64(row), height)
            own = builder.mul(builder.select(is_there, INT64(row), last), pitch)
            start = offset(builder, source, own, width)
            with cgutils.for_range(builder, vectors, intp=INT64) as loop:
                at = offset(builder, start, loop.index, HALF * width)
                place = offset(builder, output, loop.index, 4 * HALF)
                place = builder.add(place, INT64(4 * _INPUTS * row))
                store(builder, load(builder, at, HALF, width), place)
        return context.get_dummy_value()

    return signature, emit


def _multiply_floats(
    _: object, values: Any, weights: Any, sums: Any, count: Any, goes_on: Any
) -> tuple[Signature, Emit]:
    """sums[r, o] = Σ values[r, i] · weights[i, o], added to them if it `goes_on`."""
    given = (values, weights, sums, count, goes_on)
    signature = types.void(*[types.intp for _ in given])

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, target, length, is_begun = args
        keeps = builder.icmp_signed("!=", is_begun, INT64(0))
        places = [
            builder.add(target, INT64(row * _PITCH + half * 4 * HALF))
            for row in range(_AT_ONCE)
            for half in range(2)
        ]
        totals = []
        for place in places:
            before = load(builder, place, HALF)
            zero = ir.Constant(before.type, [0.0] * HALF)
            total = builder.select(keeps, before, zero)
            totals.append(cgutils.alloca_once_value(builder, total))
        with cgutils.for_range(builder, length, intp=INT64) as loop:
            line = offset(builder, panel, loop.index, _PITCH)
            columns = [
                load(builder, offset(builder, line, at, 64), HALF) for at in (0, 1)
            ]
            for row in range(_AT_ONCE):
                at = offset(builder, source, loop.index, 4)
                at = builder.add(at, INT64(4 * _INPUTS * row))
                number = splat(builder, load_number(builder, at), HALF)
                for half, column in enumerate(columns):
                    place = totals[2 * row + half]
                    total = builder.load(place)
                    builder.store(multiply_add(builder, number, column, total), place)
        for place, total in zip(places, totals, strict=True):
            store(builder, builder.load(total), place)
        return context.get_dummy_value()

    return signature, emit


copy_rows: Any = intrinsic(prefer_literal=True)(_copy_rows)
multiply_floats: Any = intrinsic(prefer_literal=True)(_multiply_floats)
