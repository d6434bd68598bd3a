"""Operations on rows of float32 in memory, vectorised, as intrinsics for numba.

Row lengths are multiples of `LANES`; addresses are integers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.vectors import (
    INT64,
    LANES,
    Emit,
    added,
    constant,
    exponential,
    lanes_for,
    larger,
    load,
    multiply_add,
    offset,
    reduce,
    splat,
    store,
    vector,
)


@contextmanager
def _each_vector(
    builder: ir.IRBuilder, row: ir.Value, count: ir.Value
) -> Iterator[ir.Value]:
    """Loops over the addresses of a row's vectors."""
    vectors = builder.udiv(count, INT64(LANES))
    with cgutils.for_range(builder, vectors, intp=INT64) as loop:
        yield offset(builder, row, loop.index, 4 * LANES)


def _row_max(_: object, row: types.Type, count: types.Type) -> tuple[Signature, Emit]:
    """Returns the maximum."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        lowest = constant(float("-inf"), LANES)
        best = cgutils.alloca_once_value(builder, lowest)
        with _each_vector(builder, *args) as at:
            seen = larger(builder, load(builder, at, LANES), builder.load(best))
            builder.store(seen, best)
        return reduce(builder, builder.load(best), larger)

    return types.float32(row, count), emit


def _row_exp(
    _: object, row: types.Type, count: types.Type, top: types.Type
) -> tuple[Signature, Emit]:
    """Replaces each number by e^(number - top) ≤ 1; returns their sum."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        start, length, highest = args
        highest = splat(builder, highest, LANES)
        total = cgutils.alloca_once_value(builder, constant(0.0, LANES))
        with _each_vector(builder, start, length) as at:
            numbers = builder.fsub(load(builder, at, LANES), highest)
            numbers = exponential(builder, numbers)
            store(builder, numbers, at)
            builder.store(added(builder, builder.load(total), numbers), total)
        return reduce(builder, builder.load(total), added)

    return types.float32(row, count, top), emit


def _row_cap(
    _: object, row: types.Type, count: types.Type, cap: types.Type
) -> tuple[Signature, Emit]:
    """Replaces each number by cap · tanh(number ÷ cap)."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        start, length, limit = args
        limit = splat(builder, limit, LANES)
        one = constant(1.0, LANES)
        with _each_vector(builder, start, length) as at:
            numbers = load(builder, at, LANES)
            is_negative = builder.fcmp_ordered("<", numbers, constant(0.0, LANES))
            size = builder.select(is_negative, builder.fneg(numbers), numbers)
            twice = builder.fmul(constant(-2.0, LANES), builder.fdiv(size, limit))
            small = exponential(builder, twice)
            tanh = builder.fdiv(builder.fsub(one, small), builder.fadd(one, small))
            capped = builder.fmul(limit, tanh)
            capped = builder.select(is_negative, builder.fneg(capped), capped)
            store(builder, capped, at)
        return context.get_dummy_value()

    return types.void(row, count, cap), emit


def _row_ramp(
    _: object, row: types.Type, count: types.Type, first: types.Type, slope: types.Type
) -> tuple[Signature, Emit]:
    """Adds slope · (first + index) to each number; `first` is a float32, too."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        start, length, at_first, factor = args
        factor = splat(builder, factor, LANES)
        lanes = ir.Constant(vector(LANES), [float(lane) for lane in range(LANES)])
        steps = builder.fadd(splat(builder, at_first, LANES), lanes)
        steps = cgutils.alloca_once_value(builder, steps)
        with _each_vector(builder, start, length) as at:
            step = builder.load(steps)
            numbers = load(builder, at, LANES)
            store(builder, multiply_add(builder, step, factor, numbers), at)
            builder.store(builder.fadd(step, constant(LANES, LANES)), steps)
        return context.get_dummy_value()

    return types.void(row, count, first, slope), emit


def _scale_row(  # noqa: PLR0917 - numba passes by position
    _: object,
    source: types.Type,
    target: types.Type,
    factor: types.Type,
    dim: Any,
    source_size: Any,
    target_size: Any,
) -> tuple[Signature, Emit]:
    """target[d] = source[d] · factor, 4 or 2 bytes per number; any dim."""
    literals = (dim, source_size, target_size)
    signature = types.void(source, target, factor, *literals)
    count, read, written = (literal.literal_value for literal in literals)
    lanes = lanes_for(count)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        start, end, scale = args[:3]
        scale = splat(builder, scale, lanes)
        with cgutils.for_range(builder, INT64(count // lanes), intp=INT64) as loop:
            at = offset(builder, start, loop.index, lanes * read)
            numbers = builder.fmul(load(builder, at, lanes, read), scale)
            at = offset(builder, end, loop.index, lanes * written)
            store(builder, numbers, at, written)
        return context.get_dummy_value()

    return signature, emit


row_max: Any = intrinsic(_row_max)
row_exp: Any = intrinsic(_row_exp)
row_cap: Any = intrinsic(_row_cap)
row_ramp: Any = intrinsic(_row_ramp)
scale_row: Any = intrinsic(prefer_literal=True)(_scale_row)
