"""A gated feed-forward layer (Shazeer 2020) on the processor's matrix unit, bfloat16.

Gate and up are one product whose sums become the activation before they leave the
first cache. What is between the layer's products lies in blocks as the second one reads
them, so that neither is written or read anywhere else.
"""

import torch

from hookline_kernels.cpu.amx import DEPTH, HEIGHT, ROWS, has_tiles
from hookline_kernels.cpu.gated import Gate
from hookline_kernels.cpu.gemm import Gemm
from hookline_kernels.cpu.panels import GELU_TANH, OUTPUTS, SILU, lay_panels
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.skinny_gemm import SkinnyGemm
from hookline_kernels.failure import KernelError

_KINDS = {"silu": SILU, "gelu_tanh": GELU_TANH}


class FeedForward:
    """down(activation(gate(x)) · up(x)) + residual. One thread calls it at a time.

    Attributes:
        least_in_blocks: Rows from which it is quicker of blocks.
    """

    least_in_blocks = SkinnyGemm.most + 1

    def __init__(
        self,
        gate: torch.Tensor,
        up: torch.Tensor,
        down: torch.Tensor,
        activation: str,
    ) -> None:
        """Takes copies of the weights, and compiles what is not compiled yet.

        Args:
            gate: [width, hidden] bfloat16.
            up: [width, hidden].
            down: [hidden, width].
            activation: "silu" or "gelu_tanh".

        Raises:
            KernelError: There is none for these weights or this machine.
        """
        width, hidden = gate.shape
        if activation not in _KINDS or gate.dtype != torch.bfloat16 or not has_tiles():
            raise KernelError("there is no matrix unit for this feed-forward layer")
        if width % DEPTH or hidden % OUTPUTS:
            raise KernelError(f"{hidden} by {width} is no multiple of {DEPTH}")
        self._width, self._hidden = width, hidden
        halves = [each.view(-1, ROWS, hidden) for each in (gate, up)]
        joined = torch.stack(halves, 1).view(2 * width, hidden)
        gate_up, down = lay_panels(joined), lay_panels(down)
        self._few = (
            SkinnyGemm(gate_up, None, OUTPUTS),
            Gate(width, gate.dtype, activation, alternates=True),
            SkinnyGemm(down, None, OUTPUTS),
        )
        kind = _KINDS[activation]
        self._into = Gemm(gate_up, kind=kind)
        self._into_from_blocks = Gemm(gate_up, kind=kind, in_blocks=True)
        self._out_of = Gemm(down, in_blocks=True)

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, hidden] → the same; the residual is like both, contiguous."""
        rows = len(values)
        if rows <= SkinnyGemm.most:
            gate_up, gate, down = self._few
            return down(gate(gate_up(values)), residual)
        return self._tiled(self._into, values.contiguous(), rows, residual)

    def of_blocks(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same of the blocks of so many rows, `least_in_blocks` at least.

        Args:
            values: Of `RmsNorm.in_blocks`.
            rows: How many they are of.
            residual: [rows, hidden], contiguous.
        """
        return self._tiled(self._into_from_blocks, values, rows, residual)

    def _tiled(
        self,
        into: Gemm,
        values: torch.Tensor,
        rows: int,
        residual: torch.Tensor | None,
    ) -> torch.Tensor:
        blocks = -(-rows // HEIGHT)
        between = fresh((blocks * HEIGHT * self._width,), values.dtype)
        output = fresh((rows, self._hidden), values.dtype)
        into.fill(between, rows, values)
        self._out_of.fill(output, rows, between, residual)
        return output
