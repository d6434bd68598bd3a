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

from hookline_kernels.cpu.amx import DEPTH, ROWS, has_tiles, own_bytes, restore_tiles
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.finishing import Finish
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.linear import packed_linear
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.tile_rows import MOST_ROWS, SUMS_PITCH, TileRows, for_tiles
from hookline_kernels.cpu.vectors import INT64, Emit, offset, prefetch

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

    most = MOST_ROWS

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
            for row in range(0, rows, MOST_ROWS):
                here = 2 * row * outputs + at
                multiply_block(
                    given[8] + 2 * row * inputs,
                    weights,
                    bias,
                    given[7] + here if given[7] else 0,
                    given[9] + here,
                    outputs,
                    inputs,
                    min(rows - row, MOST_ROWS),
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
    outputs: Any,
    inputs: Any,
    rows: Any,
    width: Any,
) -> tuple[Signature, Emit]:
    """Multiplies up to 32 rows with 32 outputs.

    `width` is a literal; the other arguments are addresses, 0 if absent, and counts.
    """
    given = (values, weights, bias, residual, output, outputs, inputs, rows)
    signature = types.void(*[types.intp for _ in given], width)
    pitch = 4 * width.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, matrix, *rest, length, count = args[:8]
        steps = builder.udiv(length, INT64(DEPTH))
        sums = builder.ptrtoint(own_bytes(builder, MOST_ROWS * SUMS_PITCH), INT64)

        def multiply_rows(tiles: int) -> None:
            own = TileRows(builder, source, length, count, tiles)
            before = own.configure(builder)
            own.clear(builder)
            with cgutils.for_range(builder, steps, intp=INT64) as loop:
                line = offset(builder, matrix, loop.index, ROWS * pitch)
                prefetch(builder, line, range(_AHEAD, _AHEAD + ROWS * pitch))
                own.multiply(builder, loop.index, line, pitch, passes_by=True)
            own.store(builder, sums)
            restore_tiles(builder, before)

        for_tiles(builder, count, multiply_rows)
        Finish(*rest).rows(builder, sums, (INT64(0), count))
        return context.get_dummy_value()

    return signature, emit


multiply_block: Any = intrinsic(prefer_literal=True)(_multiply_block)
