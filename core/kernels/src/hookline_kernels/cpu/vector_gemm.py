"""Products in bfloat16 on CPUs with vectors, but without a matrix unit.

A thread takes a panel and some blocks of rows (`vector_panels`), which it has copied to
its own memory for the first of their panels. So few rows read the weight at the speed
of memory, and many compute at that of the vector units. Products of pairs on AMD's
processors are the fastest path, float32 on AVX2 is the slowest.
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.finishing import AS_THEY_ARE, finish_sums
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import lay_panels, own_memory, uses_tiles
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.row_tasks import MOST_BLOCKS, PANELS, ROOM, divide
from hookline_kernels.cpu.vector_panels import (
    DEPTH,
    HEIGHT,
    OUTPUTS,
    SUM_BYTES,
    copy_block,
    has_quick_pairs,
    multiply_block,
    step_bytes,
)
from hookline_kernels.failure import KernelError

_SUMS = PANELS * MOST_BLOCKS * SUM_BYTES


def takes(weight: torch.Tensor) -> bool:
    """Whether vectors multiply with this weight [out, in], and tiles do not."""
    return (
        weight.dtype == torch.bfloat16
        and weight.device.type == "cpu"
        and weight.shape[0] % OUTPUTS == 0
        and weight.shape[1] % DEPTH == 0
        and not uses_tiles()
    )


def pack_for_vectors(weight: torch.Tensor) -> torch.Tensor:
    """Copies a bfloat16 weight [out, in] into panels; the shape stays the same.

    Raises:
        KernelError: It does not fit the panels, or the CPU has a matrix unit.
    """
    if not takes(weight):
        raise KernelError(f"no panels for {weight.dtype} {tuple(weight.shape)}")
    return lay_panels(weight)


class VectorGemm:
    """values · weightᵀ + bias + residual, in bfloat16, or its gated activation.

    For one thread at a time. Takes any number of rows.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        kind: int = AS_THEY_ARE,
        pairs: bool | None = None,
    ) -> None:
        """Compiles the kernel if it is not compiled yet.

        Args:
            weight: [out, in] of `lay_panels`.
            bias: [out].
            kind: `AS_THEY_ARE`, `SILU` or `GELU_TANH`.
            pairs: Uses products of pairs; None if they are quick on this CPU.
        """
        self._kept = (weight, bias)  # the kernel holds their addresses
        self._outputs, self._inputs = weight.shape
        self._pairs = int(has_quick_pairs() if pairs is None else pairs)
        self._kernel = _kernel(kind, self._pairs)
        self._width = self._outputs if kind == AS_THEY_ARE else self._outputs // 2
        self._numbers = numbers_of(
            *(0, self._inputs, self._outputs, 0, 0, 0, weight.data_ptr()),
            *(0 if bias is None else bias.data_ptr(), 0, 0, 0),
        )

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [..., out] of [..., in], or [..., out ÷ 2] with a gate.

        The residual is [..., out], contiguous; there is none with a gate.
        """
        values = values.contiguous()
        rows = values.numel() // self._inputs
        output = fresh((*values.shape[:-1], self._width), torch.bfloat16)
        numbers = self._numbers
        numbers[1] = rows
        blocks, steps = -(-rows // HEIGHT), self._inputs // DEPTH
        numbers[4], numbers[5], numbers[6] = divide(
            blocks, steps, step_bytes(self._pairs)
        )
        numbers[9] = 0 if residual is None else residual.data_ptr()
        numbers[10], numbers[11] = values.data_ptr(), output.data_ptr()
        self._kernel(self._outputs * self._inputs, numbers)
        return output


@functools.cache
def _kernel(kind: int, pairs: int) -> Kernel:
    copy_rows, multiply_panel = _copier(pairs), _multiplier(kind, pairs)

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        rows, inputs, outputs = given[1], given[2], given[3]
        together, group, at_once = given[4], given[5], given[6]
        steps, panels = inputs // DEPTH, outputs // OUTPUTS
        blocks, groups = (rows + HEIGHT - 1) // HEIGHT, (panels + group - 1) // group
        pieces = (blocks + together - 1) // together
        room, sums = own_memory(ROOM), own_memory(_SUMS)
        own = -1  # the piece that is in the thread's memory
        task = take(numbers, 1)
        while task < pieces * groups:
            piece, start = task // groups, task % groups * group
            first, last = piece * together, min((piece + 1) * together, blocks)
            for begun in range(0, steps, at_once):
                count = min(at_once, steps - begun)
                if own != piece or count < steps:
                    copy_rows(numbers, first, last, begun, count, room)
                    own = piece
                for panel in range(start, min(start + group, panels)):
                    place = sums + (panel - start) * MOST_BLOCKS * SUM_BYTES
                    multiply_panel(
                        numbers, panel, first, last, begun, count, room, place
                    )
            task = take(numbers, 1)

    return Kernel(multiply, f"vector-gemm-{kind}-{pairs}")


def _copier(pairs: int) -> Any:
    step = step_bytes(pairs)

    @exact
    def copy_rows(  # noqa: PLR0917 - numba passes by position
        numbers: Any, first: int, last: int, begun: int, count: int, room: int
    ) -> None:
        """Copies `count` steps of blocks to the thread's memory."""
        given = array_at(numbers, 12, np.int64)
        rows, inputs = given[1], given[2]
        for block in range(first, last):
            row = block * HEIGHT
            source = given[10] + 2 * (row * inputs + begun * DEPTH)
            target = room + (block - first) * count * step
            copy_block(source, 2 * inputs, rows - row, count, target, pairs)

    return copy_rows


def _multiplier(kind: int, pairs: int) -> Any:
    step = step_bytes(pairs)

    @exact
    def multiply_panel(  # noqa: PLR0917 - numba passes by position
        numbers: Any,
        panel: int,
        first: int,
        last: int,
        begun: int,
        count: int,
        room: int,
        sums: int,
    ) -> None:
        """Multiplies blocks with a panel; stores the sums behind the last inputs."""
        given = array_at(numbers, 12, np.int64)
        rows, inputs, outputs = given[1], given[2], given[3]
        is_last = (begun + count) * DEPTH == inputs
        weights = given[7] + 2 * OUTPUTS * (panel * inputs + begun * DEPTH)
        bias = given[8] + 2 * panel * OUTPUTS if given[8] else 0
        for block in range(first, last):
            row, index = block * HEIGHT, block - first
            height, place = min(rows - row, HEIGHT), sums + index * SUM_BYTES
            source = room + index * count * step
            multiply_block(source, weights, count, place, begun, height, pairs)
            if is_last:
                at = 2 * (row * outputs + panel * OUTPUTS)
                residual = given[9] + at if given[9] else 0
                if kind == AS_THEY_ARE:
                    output, stride = given[11] + at, outputs
                else:
                    output, stride = given[11] + at // 2, outputs // 2
                finish_sums(place, height, bias, residual, output, stride, kind, 2)

    return multiply_panel
