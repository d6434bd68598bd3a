"""Sums of groups of values, which the shifts of quantized weights are multiplied by."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.vectors import (
    FLOAT,
    INT64,
    Emit,
    added,
    constant,
    load,
    offset,
    reduce,
)
from hookline_kernels.quantized_weight import HALF

SUMS_BYTES = 1 << 16
"""Memory for the sums; products that need more are divided."""


def _sum_groups(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    rows: Any,
    inputs: Any,
    group: Any,
    sums: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Writes float32 [rows, inputs ÷ group]; values have `size` bytes, a literal."""
    integers = [types.intp for _ in (values, rows, inputs, group, sums)]
    signature = types.void(*integers, size)
    width = size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, count, length, per_group, target = args[:5]
        groups = builder.mul(count, builder.udiv(length, per_group))
        vectors = builder.udiv(per_group, INT64(HALF))
        place = cgutils.alloca_once(builder, constant(0.0, HALF).type)
        # Rows are contiguous, so groups are, too.
        with cgutils.for_range(builder, groups, intp=INT64) as loop:
            builder.store(constant(0.0, HALF), place)
            start = builder.mul(builder.mul(loop.index, per_group), INT64(width))
            start = builder.add(source, start)
            with cgutils.for_range(builder, vectors, intp=INT64) as inner:
                at = offset(builder, start, inner.index, HALF * width)
                total = added(
                    builder, builder.load(place), load(builder, at, HALF, width)
                )
                builder.store(total, place)
            total = reduce(builder, builder.load(place), added)
            at = offset(builder, target, loop.index, 4)
            builder.store(total, builder.inttoptr(at, FLOAT.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, emit


sum_groups: Any = intrinsic(prefer_literal=True)(_sum_groups)
