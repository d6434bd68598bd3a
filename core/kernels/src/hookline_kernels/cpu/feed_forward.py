"""A gated MLP (Shazeer 2020) in bfloat16, on the CPU's matrix unit (AMX).

Gate and up projection are one product, whose sums become activations before they leave
the L1 cache. Activations are written in the blocks that the down projection reads.

More than 32 rows in blocks, as norms write them, are the fastest path; up to 32 rows
take two products of `skinny_gemm` and a separate `Gate`, all at the speed of memory.
The slowest path is a layer that this class refuses: its three linear layers.
"""

from collections.abc import Callable

import torch

from hookline_kernels.cpu.amx import DEPTH, HEIGHT, ROWS
from hookline_kernels.cpu.finishing import GELU_TANH, SILU
from hookline_kernels.cpu.gated import Gate
from hookline_kernels.cpu.gemm import Gemm
from hookline_kernels.cpu.panels import OUTPUTS, lay_panels, uses_tiles
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.skinny_gemm import SkinnyGemm
from hookline_kernels.failure import KernelError

Parts = tuple[Callable[..., torch.Tensor], Gate, Callable[..., torch.Tensor]]
"""A gated MLP's products, and the activation between them."""
KINDS = {"silu": SILU, "gelu_tanh": GELU_TANH}
"""Activation by name."""


def alternating(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Joins two weights [width, hidden]: 16 rows of one, and 16 of the other."""
    width, hidden = gate.shape
    halves = [each.view(-1, ROWS, hidden) for each in (gate, up)]
    return torch.stack(halves, 1).view(2 * width, hidden)


class FeedForward:
    """down(activation(gate(x)) · up(x)) + residual. For one thread at a time.

    Attributes:
        least_in_blocks: Number of rows from which blocks are faster.
    """

    least_in_blocks = SkinnyGemm.most + 1

    def __init__(
        self,
        gate: torch.Tensor,
        up: torch.Tensor,
        down: torch.Tensor,
        activation: str,
    ) -> None:
        """Copies the weights, and compiles the kernels if they are not compiled yet.

        Args:
            gate: [width, hidden] bfloat16.
            up: [width, hidden].
            down: [hidden, width].
            activation: "silu" or "gelu_tanh".

        Raises:
            KernelError: No kernel supports these weights or this machine.
        """
        width, hidden = gate.shape
        if activation not in KINDS or gate.dtype != torch.bfloat16 or not uses_tiles():
            raise KernelError("no matrix unit for this gated MLP")
        if width % DEPTH or hidden % OUTPUTS:
            raise KernelError(f"{hidden} by {width} is not a multiple of {DEPTH}")
        self._width, self._hidden = width, hidden
        gate_up, down = lay_panels(alternating(gate, up)), lay_panels(down)
        self._panels = gate_up, down
        self._few = (
            SkinnyGemm(gate_up, None, OUTPUTS),
            Gate(width, gate.dtype, activation, alternates=True),
            SkinnyGemm(down, None, OUTPUTS),
        )
        kind = KINDS[activation]
        self._into = Gemm(gate_up, kind=kind)
        self._into_from_blocks = Gemm(gate_up, kind=kind, in_blocks=True)
        self._out_of = Gemm(down, in_blocks=True)

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, hidden] → [T, hidden]; the residual has that shape, contiguous."""
        rows = len(values)
        if rows <= SkinnyGemm.most:
            gate_up, gate, down = self._few
            return down(gate(gate_up(values)), residual)
        return self._tiled(self._into, values.contiguous(), rows, residual)

    def of_blocks(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Computes rows in blocks, at least `least_in_blocks` rows.

        Args:
            values: Blocks, as `RmsNorm.in_blocks` writes them.
            rows: Number of rows.
            residual: [rows, hidden], contiguous.
        """
        return self._tiled(self._into_from_blocks, values, rows, residual)

    def split(self) -> Parts:
        """Returns the products, and the activation between them, over these weights.

        16 gates and 16 ups alternate in the first one's results.
        """
        (few_into, gate, few_out_of), panels = self._few, self._panels
        into, out_of = (
            _by_rows(few, Gemm(each))
            for few, each in zip((few_into, few_out_of), panels, strict=True)
        )
        return into, gate, out_of

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


def _by_rows(few: SkinnyGemm, many: Gemm) -> Callable[..., torch.Tensor]:
    """Joins products with one weight, for few rows and for more."""

    def multiply(
        values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        product = few if len(values) <= SkinnyGemm.most else many
        return product(values, residual)

    return multiply
