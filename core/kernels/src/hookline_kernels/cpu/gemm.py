"""Products of many rows with weights in panels, on the CPU's matrix unit (AMX).

A thread takes some panels, and as many rows as fit into its L2 cache. While a block of
rows is multiplied with a panel, or a part of one, earlier sums are finished and the
next panel is prefetched, so that the matrix unit waits for neither.
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.amx import BLOCK_BYTES, DEPTH, HEIGHT
from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.finishing import AS_THEY_ARE
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import (
    LINES,
    OUTPUTS,
    SUM_BYTES,
    close_tiles,
    finish_panel,
    multiply_panel,
    open_tiles,
    own_memory,
    steps_at_once,
)
from hookline_kernels.cpu.recording import fresh

_MOST_BYTES = 1 << 20
"""Bytes of rows that a thread processes per pass: half of an L2 cache."""
_PANELS = 4
"""Maximum number of panels that a thread processes per pass."""
_TASKS = 2
"""Tasks that each thread should find at least."""
_MOST_BLOCKS = _MOST_BYTES // (2 * HEIGHT * DEPTH * 27)
"""Maximum number of row blocks per pass for wide inputs, multiplied in parts."""
_MOST_ROWS = 512
"""Maximum number of rows; oneDNN is as fast for more."""


class Gemm:
    """values · weightᵀ + bias + residual, in bfloat16, or its gated activation.

    For one thread at a time.

    Attributes:
        most: Largest number of rows for which it pays, without a gate.
    """

    most = _MOST_ROWS

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        width: int = OUTPUTS,
        kind: int = AS_THEY_ARE,
        in_blocks: bool = False,
    ) -> None:
        """Compiles the kernel if it is not compiled yet.

        Args:
            weight: [out, in] of `lay_panels`, or of `linear.pack` in blocks of outputs.
            bias: [out].
            width: Outputs in one block of the weight, 32 or 64.
            kind: `AS_THEY_ARE`, `SILU` or `GELU_TANH`.
            in_blocks: Rows lie in blocks, as a gate writes them.
        """
        self._kept = (weight, bias)  # the kernel holds their addresses
        self._outputs, self._inputs = weight.shape
        is_packed = weight.is_mkldnn
        address = torch.ops.mkldnn.data_ptr(weight) if is_packed else weight.data_ptr()
        self._kernel = _kernel(width, kind, in_blocks)
        steps = self._inputs // DEPTH
        at_once = steps_at_once(steps) if in_blocks else steps
        self._numbers = numbers_of(
            *(0, self._inputs, self._outputs, 0, 0, address, 0, 0),
            *(0 if bias is None else bias.data_ptr(), at_once, 0),
        )

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [T, out] of [T, in]; the residual is [T, out], contiguous."""
        values = values.contiguous()
        output = fresh((len(values), self._outputs), torch.bfloat16)
        self.fill(output, len(values), values, residual)
        return output

    def of_blocks(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Multiplies blocks of `rows` rows; only with `in_blocks`."""
        output = fresh((rows, self._outputs), torch.bfloat16)
        self.fill(output, rows, values, residual)
        return output

    def fill(
        self,
        output: torch.Tensor,
        rows: int,
        values: torch.Tensor,
        residual: torch.Tensor | None = None,
    ) -> None:
        """Multiplies into given memory.

        Args:
            output: [T, out], or with a gate the blocks of [T, out ÷ 2].
            rows: T, at least 32.
            values: [T, in], contiguous, or their blocks.
            residual: [T, out], contiguous.
        """
        blocks, numbers = -(-rows // HEIGHT), self._numbers
        together = _blocks_at_once(blocks, self._inputs)
        elements = self._outputs * self._inputs
        numbers[1], numbers[4] = rows, together
        panels = -(-blocks // together) * self._outputs // OUTPUTS
        wanted = _TASKS * self._kernel.threads(elements)
        numbers[11] = min(max(panels // wanted, 1), _PANELS)
        numbers[5], numbers[7] = values.data_ptr(), output.data_ptr()
        numbers[8] = 0 if residual is None else residual.data_ptr()
        self._kernel(elements, numbers)


def _blocks_at_once(blocks: int, inputs: int) -> int:
    """Blocks of rows per task: nearly equal, and within the cache."""
    most = max(1, _MOST_BYTES // (2 * HEIGHT * inputs))
    parts = -(-blocks // most)
    return -(-blocks // parts)


def _placer(width: int) -> Any:
    together = width // OUTPUTS

    @exact
    def place_of(panel: int, row_bytes: int) -> int:
        """Returns the offset of a panel in a weight, in bytes."""
        side = panel % together * 4 * OUTPUTS
        return panel // together * width * row_bytes + side

    return place_of


@functools.cache
def _kernel(width: int, kind: int, in_blocks: bool) -> Kernel:
    place_of = _placer(width)
    room = (_MOST_BLOCKS + 1 if in_blocks else 2) * SUM_BYTES

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        rows, inputs, outputs, most = given[1], given[2], given[3], given[4]
        row_bytes, steps, at_once = 2 * inputs, inputs // DEPTH, given[10]
        blocks, panels = (rows + HEIGHT - 1) // HEIGHT, outputs // OUTPUTS
        pieces = (blocks + most - 1) // most
        groups = (panels + given[11] - 1) // given[11]
        sums = own_memory(room)
        before = open_tiles()
        task = take(numbers, 1)
        while task < pieces * groups:
            first = task // groups * most
            last = min(first + most, blocks)
            lines = (LINES + last - first - 1) // (last - first)
            # sums of these blocks, and sums that are being finished
            places = 2 if at_once == steps else last - first + 1
            turn, earlier, shift, extra, target = 0, 0, 0, 0, 0
            start = task % groups * given[11]
            end = min(start + given[11], panels)
            for panel in range(start, end):
                coming = panel + 1
                if coming == end:
                    # taken early, so that its first panel is prefetched
                    task = take(numbers, 1)
                    coming = task % groups * given[11]
                weights = given[6] + place_of(panel, row_bytes)
                ahead = given[6] + place_of(coming, row_bytes)
                line = 0
                for begun in range(0, steps, at_once):
                    count = min(at_once, steps - begun)
                    for block in range(first, last):
                        # the last rows are computed twice rather than in part
                        row = min(block * HEIGHT, rows - HEIGHT)
                        source = given[5] + row * row_bytes
                        if in_blocks:
                            source = given[5] + (block * steps + begun) * BLOCK_BYTES
                        place = sums + (turn + block - first) % places * SUM_BYTES
                        multiply_panel(
                            source,
                            row_bytes,
                            weights + begun * 2 * DEPTH * width,
                            count,
                            place,
                            ahead,
                            line,
                            lines,
                            earlier,
                            shift,
                            extra,
                            target,
                            outputs,
                            begun,
                            in_blocks,
                            width,
                            kind,
                        )
                        line += count * lines
                        earlier = 0
                        if begun + count < steps:
                            continue
                        earlier = place
                        if kind == AS_THEY_ARE:
                            at = 2 * (row * outputs + panel * OUTPUTS)
                            shift = given[9] + 2 * panel * OUTPUTS if given[9] else 0
                            extra = given[8] + at if given[8] else 0
                            target = given[7] + at
                        else:
                            at = block * (panels // 2) + panel // 2
                            target = given[7] + at * BLOCK_BYTES + panel % 2 * DEPTH
                turn += last - first
            finish_panel(earlier, shift, extra, target, outputs, kind)
        close_tiles(before)

    return Kernel(multiply, f"many-rows-{width}-{kind}-{int(in_blocks)}")
