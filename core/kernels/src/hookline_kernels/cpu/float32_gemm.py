"""Products in float32 with weights in panels, by vectors.

A panel is two vectors of outputs, in memory as [in, outputs]. While it is in the L2
cache, rows of values are multiplied with it, a few at a time, whose sums stay in
registers. Sums are computed in the order of the inputs, so that a token's result does
not depend on the batch.

Paths of products in float32, the fastest first: this one for up to 16 rows, at the
speed of memory; `bf16x3_gemm` for more, with a matrix unit and weights of up to 1.4
million numbers; this one for more rows or larger weights. The slowest is torch's
`linear`, for numbers of outputs that fill no panels.
"""

import functools
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.vectors import (
    INT64,
    LANES,
    Emit,
    added_at,
    constant,
    load,
    load_number,
    multiply_add,
    offset,
    splat,
    store,
)
from hookline_kernels.failure import KernelError

OUTPUTS = 2 * LANES
"""Outputs in a panel."""
_ROWS = LANES // 2
"""Rows that are multiplied with a panel at a time: their sums fill half of the
registers, which is enough to hide the latency of an addition."""
_NEAR = 1 << 20
"""Bytes of values that stay in the L2 cache with a panel."""


class Float32Product:
    """values · weightᵀ + bias + residual, in float32. For one thread at a time.

    The kernel's arguments: inputs, outputs, rows; addresses of weight, bias, residual,
    values and output; number of threads.
    """

    def __init__(
        self,
        kernel: Kernel,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        *,
        rows_at_once: int,
    ) -> None:
        """Wraps a packed weight [out, in, …] and a bias [out].

        The kernel reads the weight once for each `rows_at_once` rows.
        """
        self._kept = (weight, bias)  # the kernel holds their addresses
        self._kernel, self._rows_at_once = kernel, rows_at_once
        self._outputs, self._inputs = weight.shape[:2]
        self._numbers = numbers_of(
            *(self._inputs, self._outputs, 0, weight.data_ptr()),
            *(0 if bias is None else bias.data_ptr(), 0, 0, 0, 0),
        )

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [..., out] of [..., in]; the residual is [..., out], contiguous."""
        values = values.contiguous()
        output = fresh((*values.shape[:-1], self._outputs), torch.float32)
        rows = values.numel() // self._inputs
        numbers = self._numbers
        numbers[3] = rows
        numbers[6] = 0 if residual is None else residual.data_ptr()
        numbers[7], numbers[8] = values.data_ptr(), output.data_ptr()
        elements = self._outputs * self._inputs * -(-rows // self._rows_at_once)
        numbers[9] = self._kernel.threads(elements)
        self._kernel(elements, numbers)
        return output


class Float32Gemm(Float32Product):
    """Computes with vectors, any number of rows."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Compiles the kernel if it is not compiled yet.

        Args:
            weight: Of `pack_float32`.
            bias: [out].

        Raises:
            KernelError: No kernel supports this machine.
        """
        super().__init__(_kernel(), weight, bias, rows_at_once=_ROWS)


def can_lay(weight: torch.Tensor) -> bool:
    """Whether a weight can be packed: [out, in] in float32, in main memory."""
    return (
        weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and weight.shape[0] % OUTPUTS == 0
    )


def pack_float32(weight: torch.Tensor) -> torch.Tensor:
    """Copies a weight [out, in] into panels; the shape stays the same.

    Raises:
        KernelError: It cannot be packed.
    """
    if not can_lay(weight):
        raise KernelError(f"no panels for {weight.dtype} {tuple(weight.shape)}")
    outputs, inputs = weight.shape
    panels = weight.view(outputs // OUTPUTS, OUTPUTS, inputs)
    return panels.transpose(1, 2).contiguous().view(outputs, inputs)


@functools.cache
def _kernel() -> Kernel:
    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 9, np.int64)
        inputs, outputs, rows = given[1], given[2], given[3]
        near = max(_NEAR // (4 * inputs * _ROWS), 1) * _ROWS
        panels, parts = outputs // OUTPUTS, (rows + near - 1) // near
        taken = take(numbers, 1)
        while taken < panels * parts:
            panel, row = taken % panels, taken // panels * near
            last = min(row + near, rows)
            weights = given[4] + 4 * panel * OUTPUTS * inputs
            bias = given[5] + 4 * panel * OUTPUTS if given[5] else 0
            while row < last:
                here = 4 * (row * outputs + panel * OUTPUTS)
                residual = given[6] + here if given[6] else 0
                values = given[7] + 4 * row * inputs
                target = given[8] + here
                # The number of rows must be a constant.
                if row + _ROWS <= last:
                    multiply_rows(
                        values,
                        weights,
                        bias,
                        residual,
                        target,
                        inputs,
                        outputs,
                        _ROWS,
                    )
                    row += _ROWS
                elif row + 2 <= last:
                    multiply_rows(
                        values, weights, bias, residual, target, inputs, outputs, 2
                    )
                    row += 2
                else:
                    multiply_rows(
                        values, weights, bias, residual, target, inputs, outputs, 1
                    )
                    row += 1
            taken = take(numbers, 1)

    return Kernel(multiply, f"float32-gemm-{LANES}")


def _multiply_rows(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    weights: Any,
    bias: Any,
    residual: Any,
    output: Any,
    inputs: Any,
    outputs: Any,
    rows: Any,
) -> tuple[Signature, Emit]:
    """Multiplies `rows` rows, a literal, with a panel.

    The other arguments are addresses, 0 if absent, and counts.
    """
    integers = [
        types.intp for _ in (values, weights, bias, residual, output, inputs, outputs)
    ]
    signature = types.void(*integers, rows)
    high = rows.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, shift, extra, target, length, stride = args[:7]
        zero = constant(0.0, LANES)
        sums = [
            [cgutils.alloca_once_value(builder, zero) for _ in "01"]
            for _ in range(high)
        ]
        with cgutils.for_range(builder, length, intp=INT64) as loop:
            line = offset(builder, panel, loop.index, 4 * OUTPUTS)
            columns = [
                load(builder, offset(builder, line, part, 4 * LANES), LANES)
                for part in range(2)
            ]
            for row, places in enumerate(sums):
                start = builder.add(source, builder.mul(length, INT64(4 * row)))
                number = load_number(builder, offset(builder, start, loop.index, 4))
                number = splat(builder, number, LANES)
                for column, place in zip(columns, places, strict=True):
                    total = multiply_add(builder, number, column, builder.load(place))
                    builder.store(total, place)
        for row, places in enumerate(sums):
            for part, place in enumerate(places):
                total = builder.load(place)
                total = added_at(builder, total, shift, INT64(part * LANES), 4)
                at = builder.mul(stride, INT64(row))
                at = builder.add(at, INT64(part * LANES))
                total = added_at(builder, total, extra, at, 4)
                store(builder, total, offset(builder, target, at, 4))
        return context.get_dummy_value()

    return signature, emit


multiply_rows: Any = intrinsic(prefer_literal=True)(_multiply_rows)
