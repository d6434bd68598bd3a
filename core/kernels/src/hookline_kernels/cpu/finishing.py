"""What becomes of finished sums: bias and residual, or a gate, and rounding."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.gated import quickly_gated
from hookline_kernels.cpu.vectors import INT64, Emit, added_at, load, offset, store

AS_THEY_ARE, SILU, GELU_TANH = range(3)
"""Activations applied to finished sums."""
LANES = 16
"""Numbers that are finished at a time; also gates in a row before as many ups."""
OUTPUTS = 2 * LANES
"""Sums in a row."""


def finish_rows(
    builder: ir.IRBuilder,
    kind: int,
    sums: ir.Value,
    bounds: tuple[ir.Value, ir.Value],
    *,
    shift: ir.Value,
    extra: ir.Value,
    target: ir.Value,
    stride: ir.Value,
) -> None:
    """Stores rows of 32 float32 sums as bfloat16, by `add_rows` or gated.

    With a gate, a row is 16 gates and 16 ups, and becomes 16 numbers.

    Args:
        builder: Emits the code.
        kind: `AS_THEY_ARE`, `SILU` or `GELU_TANH`.
        sums: Their address, [rows, 32].
        bounds: First row, and end of the rows; may be empty.
        shift: Address of the bias, as in `add_rows`; without a gate only.
        extra: Address of the residual, likewise.
        target: Address of the result.
        stride: Numbers from row to row of `target` and of `extra`.
    """
    if kind == AS_THEY_ARE:
        add_rows(
            builder,
            sums,
            bounds,
            shift=shift,
            extra=extra,
            target=target,
            stride=stride,
        )
        return
    with cgutils.for_range_slice(builder, *bounds, INT64(1)) as (row, _):
        gates = offset(builder, sums, row, 4 * OUTPUTS)
        ups = builder.add(gates, INT64(4 * LANES))
        sides = (load(builder, side, LANES) for side in (gates, ups))
        found = quickly_gated(builder, *sides, has_cube=kind == GELU_TANH)
        at = builder.add(target, builder.mul(row, builder.mul(stride, INT64(2))))
        store(builder, found, at, 2)


def add_rows(
    builder: ir.IRBuilder,
    sums: ir.Value,
    bounds: tuple[ir.Value, ir.Value],
    *,
    shift: ir.Value,
    extra: ir.Value,
    target: ir.Value,
    stride: ir.Value,
    size: int = 2,
) -> None:
    """Adds bias and residual to rows of 32 float32 sums, and stores them.

    Args:
        builder: Emits the code.
        sums: Their address, [rows, 32].
        bounds: First row, and end of the rows; may be empty.
        shift: Address of the bias, 32 numbers; 0 for none.
        extra: Address of the residual, one row per row of sums; 0 for none.
        target: Address of the result.
        stride: Numbers from row to row of `target` and of `extra`.
        size: Bytes of their numbers: 4 for float32, 2 for bfloat16.
    """
    with cgutils.for_range_slice(builder, *bounds, INT64(1)) as (row, _):
        for part in range(2):
            at = builder.add(builder.mul(row, INT64(2)), INT64(part))
            total = load(builder, offset(builder, sums, at, 64), LANES)
            total = added_at(builder, total, shift, INT64(part * LANES), size)
            at = builder.add(builder.mul(stride, row), INT64(part * LANES))
            total = added_at(builder, total, extra, at, size)
            store(builder, total, offset(builder, target, at, size), size)


def _finish_sums(  # noqa: PLR0917 - numba passes by position
    _: object,
    sums: Any,
    rows: Any,
    shift: Any,
    extra: Any,
    target: Any,
    stride: Any,
    kind: Any,
) -> tuple[Signature, Emit]:
    """Finishes this many rows by `finish_rows`."""
    given = (sums, rows, shift, extra, target, stride)
    which = kind.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        finish_rows(
            builder,
            which,
            args[0],
            (INT64(0), args[1]),
            shift=args[2],
            extra=args[3],
            target=args[4],
            stride=args[5],
        )
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given], kind), emit


finish_sums: Any = intrinsic(prefer_literal=True)(_finish_sums)
