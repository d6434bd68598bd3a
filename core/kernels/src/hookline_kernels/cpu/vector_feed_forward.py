"""A gated MLP (Shazeer 2020) in bfloat16 on CPUs without a matrix unit.

Gate and up projection are one product, whose sums become activations before they leave
the L1 cache. The paths are those of `vector_gemm`; the slowest is a layer that this
class refuses: its three linear layers.
"""

import torch

from hookline_kernels.cpu.feed_forward import KINDS, Parts, alternating
from hookline_kernels.cpu.gated import Gate
from hookline_kernels.cpu.vector_gemm import VectorGemm, pack_for_vectors
from hookline_kernels.cpu.vector_panels import DEPTH
from hookline_kernels.failure import KernelError


class VectorFeedForward:
    """down(activation(gate(x)) · up(x)) + residual, for any number of rows.

    For one thread at a time.
    """

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
            KernelError: No kernel supports these weights, or tiles are faster here.
        """
        if activation not in KINDS or len(gate) % DEPTH:
            raise KernelError(f"no kernel for {activation} of {len(gate)} gates")
        self._width, self._activation = len(gate), activation
        self._gate_up = pack_for_vectors(alternating(gate, up))
        self._into = VectorGemm(self._gate_up, kind=KINDS[activation])
        self._out_of = VectorGemm(pack_for_vectors(down))

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, hidden] → [T, hidden]; the residual has that shape, contiguous."""
        return self._out_of(self._into(values), residual)

    def split(self) -> Parts:
        """Returns the products, and the activation between them, over these weights.

        16 gates and 16 ups alternate in the first one's results.
        """
        gate = Gate(self._width, torch.bfloat16, self._activation, alternates=True)
        return VectorGemm(self._gate_up), gate, self._out_of
