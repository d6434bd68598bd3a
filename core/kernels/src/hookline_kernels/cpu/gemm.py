"""Products of many rows with weights in panels, on the CPU's matrix unit (AMX).

`block_gemm` has the kernel's loop. Rows in blocks are the fastest, since they stream
past the part of a panel that stays in the L1 cache. Long contiguous rows are the
slowest, since they evict one another from that cache.
"""

import functools
from typing import Any

import torch

from hookline_kernels.cpu.amx import DEPTH
from hookline_kernels.cpu.block_gemm import PanelSource, blocks_kernel, divide_blocks
from hookline_kernels.cpu.elements import exact
from hookline_kernels.cpu.finishing import AS_THEY_ARE
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import int_at
from hookline_kernels.cpu.panels import LINES, OUTPUTS, steps_at_once
from hookline_kernels.cpu.recording import fresh

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
            *(self._inputs, self._outputs, 0, self._inputs, address, 0, 0),
            *(0 if bias is None else bias.data_ptr(), 0, 0, 0, 0, at_once, 0),
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
        numbers, elements = self._numbers, self._outputs * self._inputs
        numbers[3] = rows
        numbers[9] = 0 if residual is None else residual.data_ptr()
        numbers[10], numbers[11] = values.data_ptr(), output.data_ptr()
        divide_blocks(numbers, self._kernel.threads(elements))
        self._kernel(elements, numbers)


@functools.cache
def _kernel(width: int, kind: int, in_blocks: bool) -> Kernel:
    variant = f"many-rows-{width}-{kind}-{int(in_blocks)}"
    return blocks_kernel(
        _source(width), kind=kind, in_blocks=in_blocks, variant=variant
    )


def _source(width: int) -> PanelSource:
    together = width // OUTPUTS

    @exact
    def ahead_of(numbers: int, panel: int) -> Any:
        """Returns the address of a panel."""
        side = panel % together * 4 * OUTPUTS
        row_bytes = 2 * int_at(numbers, 1)
        return int_at(numbers, 5) + panel // together * width * row_bytes + side

    @exact
    def part_of(numbers: int, panel: int, begun: int, _: int, __: int) -> Any:
        """Returns the address of a part of a panel."""
        return ahead_of(numbers, panel) + begun * 2 * DEPTH * width

    return PanelSource(part_of, ahead_of, LINES, width)
