"""Products of few rows with packed weights, at the speed of memory.

The overhead of a call of oneDNN is as large as such a product. The kernel reads
oneDNN's packed weights in place, on the CPU's matrix unit (AMX): a block of outputs is
contiguous, as pairs of neighbouring inputs of each output
([out ÷ width, in ÷ 2, width, 2]). oneDNN does not document its layout, so one is used
only if a trial gives oneDNN's result.
"""

import functools
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    DEPTH,
    INT8,
    ROWS,
    begin,
    clear_tile,
    end,
    has_tiles,
    load_tile,
    multiply_tiles,
    own_bytes,
    store_tile,
)
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.finishing import add_rows
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.linear import packed_linear
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.vectors import INT64, Emit, offset, prefetch

_MOST_ROWS = 32
"""Most rows; other kernels are as fast for more."""

_WIDTHS = (32, 64)
_OUTPUTS = 2 * ROWS
"""Outputs that are computed at a time."""
_AHEAD = 4096
"""Prefetch distance, in bytes."""


class SkinnyGemm:
    """values · weightᵀ + bias + residual, in bfloat16. For one thread at a time.

    Attributes:
        most: Largest number of rows for which it pays.
        width: Outputs in one block of its weight.
    """

    most = _MOST_ROWS

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, width: int
    ) -> None:
        """Wraps a weight in blocks of `width` outputs: `linear.pack`, `lay_panels`."""
        self._kept = (weight, bias)  # the kernel holds their addresses
        self.width = width
        self._outputs, self._inputs = weight.shape
        is_packed = weight.is_mkldnn
        address = torch.ops.mkldnn.data_ptr(weight) if is_packed else weight.data_ptr()
        self._kernel = _kernel(width)
        self._numbers = numbers_of(
            *(self._outputs // _OUTPUTS, self._inputs, self._outputs, 0),
            address,
            *(0 if bias is None else bias.data_ptr(), 0, 0, 0),
        )

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [T, out] of [T, in]; the residual is [T, out], contiguous."""
        values = values.contiguous()
        output = fresh((len(values), self._outputs), torch.bfloat16)
        numbers = self._numbers
        numbers[4] = len(values)
        numbers[7] = 0 if residual is None else residual.data_ptr()
        numbers[8], numbers[9] = values.data_ptr(), output.data_ptr()
        self._kernel(self._outputs * self._inputs, numbers)
        return output


def skinny_gemm_for(
    weight: torch.Tensor, bias: torch.Tensor | None
) -> SkinnyGemm | None:
    """Returns a product with a weight of `linear.pack`.

    None if the weight's layout is unknown, or the CPU has no matrix unit.
    """
    outputs, inputs = weight.shape
    if not has_tiles() or inputs % DEPTH or outputs % _OUTPUTS:
        return None
    if torch.ops.mkldnn._nbytes(weight) != 2 * outputs * inputs:  # noqa: SLF001
        return None
    source = torch.Generator().manual_seed(0)
    values = torch.randn(ROWS + 1, inputs, generator=source).bfloat16()
    expected = packed_linear(values, weight, bias).float()
    for width in _WIDTHS:
        if outputs % width:
            continue
        found = SkinnyGemm(weight, bias, width)
        error = (found(values).float() - expected).abs().max()
        if error <= 0.02 * expected.abs().max():
            return found
    return None


@functools.cache
def _kernel(width: int) -> Kernel:
    shares = width // _OUTPUTS

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 10, np.int64)
        blocks, inputs, outputs, rows = given[1], given[2], given[3], given[4]
        block = take(numbers, 1)
        while block < blocks:
            at = 2 * block * _OUTPUTS
            weights = given[5] + block // shares * 2 * width * inputs
            weights += block % shares * 4 * _OUTPUTS
            bias = given[6] + at if given[6] else 0
            for row in range(0, rows, 2 * ROWS):
                here = 2 * row * outputs + at
                residual = given[7] + here if given[7] else 0
                values = given[8] + 2 * row * inputs
                output = given[9] + here
                left = rows - row
                if left > ROWS:
                    left = min(left, 2 * ROWS)
                    multiply_block(
                        values,
                        weights,
                        bias,
                        residual,
                        output,
                        left,
                        inputs,
                        outputs,
                        2,
                        width,
                    )
                else:
                    multiply_block(
                        values,
                        weights,
                        bias,
                        residual,
                        output,
                        left,
                        inputs,
                        outputs,
                        1,
                        width,
                    )
            block = take(numbers, 1)

    return Kernel(multiply, f"skinny-gemm-{width}")


def _multiply_block(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    weights: Any,
    bias: Any,
    residual: Any,
    output: Any,
    rows: Any,
    inputs: Any,
    outputs: Any,
    tiles: Any,
    width: Any,
) -> tuple[Signature, Emit]:
    """Multiplies up to 32 rows with 32 outputs.

    `tiles` (1 or 2 tiles of rows) and `width` are literals; the other arguments are
    addresses, 0 if absent, and counts.
    """
    integers = [
        types.intp
        for _ in (values, weights, bias, residual, output, rows, inputs, outputs)
    ]
    signature = types.void(*integers, tiles, width)
    high, pitch = tiles.literal_value, width.literal_value
    sums, others = range(2 * high), (6, 7)
    own = range(4, 4 + high)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, matrix, shift, extra, target, count, length, stride = args[:8]
        last = builder.trunc(builder.sub(count, INT64(ROWS * (high - 1))), INT8)
        heights = dict.fromkeys((*sums, *own, *others), INT8(ROWS))
        heights |= dict.fromkeys((*sums[-2:], own[-1]), last)
        before = begin(builder, heights)
        for each in sums:
            clear_tile(builder, each)
        row_bytes = builder.mul(length, INT64(2))
        loops = builder.udiv(length, INT64(DEPTH))
        with cgutils.for_range(builder, loops, intp=INT64) as loop:
            line = offset(builder, matrix, loop.index, 64 * pitch)
            prefetch(builder, line, range(_AHEAD, _AHEAD + 64 * pitch))
            for index, each in enumerate(own):
                at = builder.add(source, builder.mul(row_bytes, INT64(ROWS * index)))
                load_tile(builder, each, offset(builder, at, loop.index, 64), row_bytes)
            for index, each in enumerate(others):
                # read once; the rows stay in the L1 cache
                place = offset(builder, line, index, 64)
                load_tile(builder, each, place, 4 * pitch, passes_by=True)
            for each in sums:
                multiply_tiles(builder, each, own[each // 2], others[each % 2])
        totals = builder.ptrtoint(own_bytes(builder, 1024 * len(sums)), INT64)
        for each in sums:
            at = builder.add(totals, INT64(each // 2 * 2048 + each % 2 * 64))
            store_tile(builder, each, at, 128)
        end(builder, before)
        add_rows(
            builder,
            totals,
            (INT64(0), count),
            shift=shift,
            extra=extra,
            target=target,
            stride=stride,
        )
        return context.get_dummy_value()

    return signature, emit


multiply_block: Any = intrinsic(prefer_literal=True)(_multiply_block)
