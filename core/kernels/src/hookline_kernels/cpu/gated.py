"""The activation between the products of a gated MLP (Shazeer 2020).

The fastest path is no kernel of its own: products of many rows gate their sums while
they are in the L1 cache (`quickly_gated`). Then follow `Gate`, with widths that fill
vectors the fastest, and torch for other activations.
"""

import functools
import math
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.elements import SCALARS, array_at
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.vectors import (
    INT64,
    LOG2_E,
    Emit,
    constant,
    exponential,
    lanes_for,
    load,
    multiply_add,
    offset,
    power_of_2,
    store,
)
from hookline_kernels.failure import KernelError

GATES = ("silu", "gelu_tanh")
"""Activations with a kernel."""

_ROWS = 4
"""Rows that a thread takes at a time."""
_GELU = (2 * 0.7978845608028654, 2 * 0.7978845608028654 * 0.044715)
"""Coefficients of the tanh approximation: 1 + tanh(z) is twice sigmoid(2 z)."""
_ALTERNATING = 16
"""Gates in a row before as many ups; a power of two."""


class Gate:
    """activation(gates) · ups of each row; rounded once.

    For one thread at a time.
    """

    def __init__(
        self,
        width: int,
        dtype: torch.dtype,
        activation: str,
        *,
        alternates: bool = False,
    ) -> None:
        """Compiles the kernel if it is not compiled yet.

        Args:
            width: Number of gates in a row, and of ups.
            dtype: bfloat16 or float32.
            activation: One of `GATES`.
            alternates: 16 gates and 16 ups alternate in a row, or fewer if 16 does not
                divide the width; otherwise all gates precede all ups.

        Raises:
            KernelError: No kernel supports this dtype or machine.
        """
        if dtype not in SCALARS:
            raise KernelError(f"no compiled gate for {dtype}")
        self._width, self._dtype = width, dtype
        lanes = math.gcd(width, _ALTERNATING) if alternates else lanes_for(width)
        self._kernel = _kernel(dtype, lanes, activation, alternates)
        self._numbers = numbers_of(0, width, 0, 0)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """[..., 2 · width] → [..., width]."""
        values = values.contiguous()
        output = fresh((*values.shape[:-1], self._width), self._dtype)
        numbers, elements = self._numbers, output.numel()
        numbers[1] = elements // self._width
        numbers[3], numbers[4] = values.data_ptr(), output.data_ptr()
        self._kernel(4 * elements, numbers)
        return output


@functools.cache
def _kernel(
    dtype: torch.dtype, lanes: int, activation: str, alternates: bool
) -> Kernel:
    size = dtype.itemsize
    group = (
        2 * lanes if alternates else lanes
    )  # numbers from one vector of gates to the next
    has_cube = activation == "gelu_tanh"

    def gate_rows(numbers: Any) -> None:
        given = array_at(numbers, 5, np.int64)
        rows, width = given[1], given[2]
        first = take(numbers, _ROWS)
        while first < rows:
            for row in range(first, min(first + _ROWS, rows)):
                source = given[3] + row * 2 * width * size
                target = given[4] + row * width * size
                ups = source + (lanes if alternates else width) * size
                gate_row(source, ups, target, width, lanes, group, size, has_cube)
            first = take(numbers, _ROWS)

    return Kernel(gate_rows, f"gate-{activation}-{str(dtype)[6:]}-{lanes}-{group}")


def _gate_row(  # noqa: PLR0917 - numba passes by position
    _: object,
    gates: Any,
    ups: Any,
    output: Any,
    width: Any,
    lanes: Any,
    group: Any,
    size: Any,
    cube: Any,
) -> tuple[Signature, Emit]:
    """Computes one row; the width is a multiple of `lanes`; `size` bytes per number.

    Consecutive vectors of gates, and of ups, are `group` numbers apart.
    """
    integers = [types.intp for _ in (gates, ups, output, width)]
    signature = types.void(*integers, lanes, group, size, cube)
    step, element = lanes.literal_value, size.literal_value
    apart, has_cube = group.literal_value * element, cube.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        *sides, target, count = args[:4]
        vectors = builder.udiv(count, INT64(step))
        with cgutils.for_range(builder, vectors, intp=INT64) as loop:
            each, other = (
                load(builder, offset(builder, side, loop.index, apart), step, element)
                for side in sides
            )
            found = gated(builder, each, other, has_cube=has_cube)
            place = offset(builder, target, loop.index, step * element)
            store(builder, found, place, element)
        return context.get_dummy_value()

    return signature, emit


def gated(
    builder: ir.IRBuilder, gates: ir.Value, ups: ir.Value, *, has_cube: bool
) -> ir.Value:
    """activation(gates) · ups, of vectors in float32."""
    lanes = gates.type.count
    argument = _gelu_argument(builder, gates, lanes) if has_cube else gates
    active = builder.fmul(gates, _sigmoid(builder, argument, lanes))
    return builder.fmul(active, ups)


def quickly_gated(
    builder: ir.IRBuilder, gates: ir.Value, ups: ir.Value, *, has_cube: bool
) -> ir.Value:
    """Gates 16 numbers with AVX-512, to a relative precision of 1e-4."""
    argument = _gelu_argument(builder, gates, 16) if has_cube else gates
    argument = builder.fmul(argument, constant(-LOG2_E, 16))
    whole = builder.fadd(constant(1.0, 16), power_of_2(builder, argument))
    return builder.fmul(builder.fdiv(gates, whole), ups)


def _gelu_argument(builder: ir.IRBuilder, numbers: ir.Value, lanes: int) -> ir.Value:
    square = builder.fmul(numbers, numbers)
    linear, cubic = (constant(number, lanes) for number in _GELU)
    return builder.fmul(numbers, multiply_add(builder, square, cubic, linear))


def _sigmoid(builder: ir.IRBuilder, numbers: ir.Value, lanes: int) -> ir.Value:
    """Computes e^−|x|, which never overflows."""
    zero, one = constant(0.0, lanes), constant(1.0, lanes)
    is_negative = builder.fcmp_ordered("<", numbers, zero)
    size = builder.select(is_negative, numbers, builder.fneg(numbers))
    small = exponential(builder, size)
    share = builder.fdiv(one, builder.fadd(one, small))
    return builder.select(is_negative, builder.fmul(small, share), share)


gate_row: Any = intrinsic(prefer_literal=True)(_gate_row)
