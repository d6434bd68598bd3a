"""The end of a product: bias and residual, or a gate, and rounding.

A product leaves rows of 32 float32 sums in the L1 cache. They are finished there, while
the next sums are computed, so that no second kernel has to read the result.
"""

from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Finish:
    """What is done with rows of sums.

    Without a gate, bias and residual are added to a row. With one, a row is 16 gates
    and 16 ups; it becomes 16 numbers, to which nothing is added.

    Attributes:
        bias: Address of 32 numbers; 0 for none.
        residual: Address of a row for each row of sums; 0 for none.
        output: Address of the finished rows.
        stride: Numbers from row to row of residual and output.
        kind: `AS_THEY_ARE`, `SILU` or `GELU_TANH`.
        size: Bytes of a number of bias, residual and output: 4 for float32, 2 for
            bfloat16.
    """

    bias: ir.Value
    residual: ir.Value
    output: ir.Value
    stride: ir.Value
    kind: int = field(default=AS_THEY_ARE, kw_only=True)
    size: int = field(default=2, kw_only=True)

    def rows(
        self,
        builder: ir.IRBuilder,
        sums: ir.Value,
        bounds: tuple[ir.Value, ir.Value],
    ) -> None:
        """Finishes rows.

        Args:
            builder: Emits the instructions.
            sums: Address of the sums, float32 [rows, 32].
            bounds: First row, and end of the rows; may be empty.
        """
        with cgutils.for_range_slice(builder, *bounds, INT64(1)) as (row, _):
            if self.kind == AS_THEY_ARE:
                for half in range(2):
                    self._add(builder, sums, row, half)
            else:
                self._gate(builder, sums, row)

    def _add(
        self, builder: ir.IRBuilder, sums: ir.Value, row: ir.Value, half: int
    ) -> None:
        """Adds bias and residual to half a row."""
        at = builder.add(builder.mul(row, INT64(2)), INT64(half))
        total = load(builder, offset(builder, sums, at, 4 * LANES), LANES)
        total = added_at(builder, total, self.bias, INT64(half * LANES), self.size)
        at = builder.add(builder.mul(self.stride, row), INT64(half * LANES))
        total = added_at(builder, total, self.residual, at, self.size)
        store(builder, total, offset(builder, self.output, at, self.size), self.size)

    def _gate(self, builder: ir.IRBuilder, sums: ir.Value, row: ir.Value) -> None:
        gates = offset(builder, sums, row, 4 * OUTPUTS)
        ups = builder.add(gates, INT64(4 * LANES))
        sides = (load(builder, side, LANES) for side in (gates, ups))
        found = quickly_gated(builder, *sides, has_cube=self.kind == GELU_TANH)
        at = builder.mul(row, self.stride)
        store(builder, found, offset(builder, self.output, at, self.size), self.size)


def _finish_sums(  # noqa: PLR0917 - numba passes by position
    _: object,
    sums: Any,
    rows: Any,
    bias: Any,
    residual: Any,
    output: Any,
    stride: Any,
    kind: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Finishes this many rows as `Finish` does; `kind` and `size` are literals."""
    given = (sums, rows, bias, residual, output, stride)
    which, width = kind.literal_value, size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        finish = Finish(*args[2:6], kind=which, size=width)
        finish.rows(builder, args[0], (INT64(0), args[1]))
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given], kind, size), emit


finish_sums: Any = intrinsic(prefer_literal=True)(_finish_sums)
