"""RMSNorm (Zhang and Sennrich 2019), two passes over a row in cache.

Contiguous rows of a multiple of 16 numbers are the fastest, and blocks cost no more;
odd widths compute number by number. The slowest path is the torch reference, for rows
of another dtype than the weight's.
"""

import functools
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import BLOCK_BYTES, DEPTH, HEIGHT, ROWS
from hookline_kernels.cpu.elements import (
    SCALARS,
    array_at,
    float_bits,
    to_float,
)
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.vectors import (
    FLOAT,
    INT64,
    Emit,
    added,
    constant,
    lanes_for,
    load,
    multiply_add,
    offset,
    reduce,
    splat,
    store,
)
from hookline_kernels.failure import KernelError
from hookline_kernels.layers import rms_norm_reference

_ROWS = 16
"""Rows that a thread takes at a time."""


class RmsNorm:
    """Divides each row by its root mean square, and scales it by the weight.

    For one thread at a time. The weight's memory must stay where it is.

    Attributes:
        lays_blocks: `in_blocks` supports this weight.
    """

    def __init__(
        self, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
    ) -> None:
        """Compiles the kernel if it is not compiled yet.

        Args:
            weight: [width], bfloat16 or float32, in main memory.
            epsilon: Added to the mean square.
            unit_offset: Scale by 1 + `weight` before rounding to the dtype, instead of
                by `weight` after it.

        Raises:
            KernelError: No kernel supports this dtype or machine.
        """
        if weight.dtype not in SCALARS:
            raise KernelError(f"no compiled RMSNorm for {weight.dtype}")
        self._weight = weight.contiguous()
        self._epsilon, self._unit_offset = epsilon, unit_offset
        (self._width,) = weight.shape
        self.lays_blocks = weight.dtype == torch.bfloat16 and self._width % DEPTH == 0
        self._kernel = _kernel(weight.dtype, lanes_for(self._width), unit_offset)
        self._numbers = numbers_of(
            *(0, 1, self._width, 0, self._width),
            *(0, self._weight.data_ptr(), 0),
            float_bits(epsilon),
        )

    def in_blocks(self, values: torch.Tensor) -> torch.Tensor:
        """Normalizes [T, width] into the layout that products of rows read fastest.

        Args:
            values: Contiguous, of the weight's dtype, at least 32 rows.

        Returns:
            [blocks, width ÷ 32, 32, 32]: the first 32 numbers of 32 rows, then their
            next. The last block holds the last 32 rows, and may repeat rows of the
            block before.
        """
        rows, kernel = len(values), _block_kernel(self._unit_offset)
        shape = (-(-rows // HEIGHT), self._width // DEPTH, HEIGHT, DEPTH)
        output, numbers = fresh(shape, values.dtype), self._numbers
        numbers[1], numbers[6], numbers[8] = rows, values.data_ptr(), output.data_ptr()
        kernel(values.numel(), numbers)
        return output

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Normalizes [..., width]; the result is contiguous.

        Rows of another dtype or width than the weight's use the torch reference.
        """
        numbers = self._numbers
        if values.dtype != self._weight.dtype or values.shape[-1] != self._width:
            return rms_norm_reference(
                values, self._weight, self._epsilon, unit_offset=self._unit_offset
            )
        if values.is_contiguous():
            numbers[2], numbers[3], numbers[4] = 1, self._width, 0
        elif values.ndim == 4 and values.shape[0] == 1 and values.stride(3) == 1:
            numbers[2] = values.shape[2]
            numbers[3], numbers[4] = values.stride(1), values.stride(2)
        else:
            return self(values.contiguous())
        output = fresh(values.shape, values.dtype)
        elements = output.numel()
        numbers[1] = elements // self._width
        numbers[6], numbers[8] = values.data_ptr(), output.data_ptr()
        self._kernel(elements, numbers)
        return output


@functools.cache
def _kernel(dtype: torch.dtype, lanes: int, unit_offset: bool) -> Kernel:
    size = dtype.itemsize

    def rms_norm_rows(numbers: Any) -> None:
        given = array_at(numbers, 10, np.int64)
        rows, inner, width = given[1], given[2], given[5]
        epsilon = to_float(given[9])
        first = take(numbers, _ROWS)
        while first < rows:
            for row in range(first, min(first + _ROWS, rows)):
                at = row // inner * given[3] + row % inner * given[4]
                norm_row(
                    given[6] + at * size,
                    given[7],
                    given[8] + row * width * size,
                    epsilon,
                    width,
                    lanes,
                    size,
                    unit_offset,
                    False,
                )
            first = take(numbers, _ROWS)

    variant = f"rms-norm-{str(dtype)[6:]}-{lanes}"
    return Kernel(rms_norm_rows, f"{variant}-offset" if unit_offset else variant)


@functools.cache
def _block_kernel(unit_offset: bool) -> Kernel:
    def rms_norm_blocks(numbers: Any) -> None:
        given = array_at(numbers, 10, np.int64)
        rows, width = given[1], given[5]
        epsilon = to_float(given[9])
        blocks = (rows + HEIGHT - 1) // HEIGHT
        block = take(numbers, 1)
        while block < blocks:
            first = min(block * HEIGHT, rows - HEIGHT)
            target = given[8] + block * HEIGHT * width * 2
            for row in range(HEIGHT):
                norm_row(
                    given[6] + (first + row) * width * 2,
                    given[7],
                    target + row * DEPTH * 2,
                    epsilon,
                    width,
                    ROWS,
                    2,
                    unit_offset,
                    True,
                )
            block = take(numbers, 1)

    variant = "rms-norm-blocks"
    return Kernel(rms_norm_blocks, f"{variant}-offset" if unit_offset else variant)


def _norm_row(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    weights: Any,
    output: Any,
    epsilon: Any,  # noqa: ARG001 - its type is float32 whatever it is
    width: Any,  # noqa: ARG001 - likewise
    lanes: Any,
    size: Any,
    unit_offset: Any,
    in_block: Any,
) -> tuple[Signature, Emit]:
    """Normalizes one row; the output may be the values themselves, or part of a block.

    The width is a multiple of `lanes`; numbers have `size` bytes.
    """
    integers = [types.intp for _ in (values, weights, output)]
    signature = types.void(
        *integers, types.float32, types.intp, lanes, size, unit_offset, in_block
    )
    step, element = lanes.literal_value, size.literal_value
    is_offset, is_block = unit_offset.literal_value, in_block.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, factors, target, small, count = args[:5]
        vectors = builder.udiv(count, INT64(step))

        def numbers_at(address: ir.Value, index: ir.Value) -> ir.Value:
            place = offset(builder, address, index, step * element)
            return load(builder, place, step, element)

        squares = cgutils.alloca_once_value(builder, constant(0.0, step))
        with cgutils.for_range(builder, vectors, intp=INT64) as loop:
            numbers = numbers_at(source, loop.index)
            total = multiply_add(builder, numbers, numbers, builder.load(squares))
            builder.store(total, squares)
        mean = reduce(builder, builder.load(squares), added)
        mean = builder.fdiv(mean, builder.sitofp(count, FLOAT))
        root = builder.module.declare_intrinsic("llvm.sqrt", [FLOAT])
        root = builder.call(root, [builder.fadd(mean, small)])
        scale = splat(builder, builder.fdiv(FLOAT(1.0), root), step)
        with cgutils.for_range(builder, vectors, intp=INT64) as loop:
            place = offset(builder, target, loop.index, step * element)
            if is_block:
                at = builder.lshr(loop.index, INT64(1))
                place = offset(builder, target, at, BLOCK_BYTES)
                half = builder.and_(loop.index, INT64(1))
                place = offset(builder, place, half, DEPTH)
            normed = builder.fmul(numbers_at(source, loop.index), scale)
            weight = numbers_at(factors, loop.index)
            if is_offset:
                weight = builder.fadd(weight, constant(1.0, step))
            elif element == 2:  # rounds before it scales
                store(builder, normed, place, element)
                normed = load(builder, place, step, element)
            store(builder, builder.fmul(normed, weight), place, element)
        return context.get_dummy_value()

    return signature, emit


norm_row: Any = intrinsic(prefer_literal=True)(_norm_row)
