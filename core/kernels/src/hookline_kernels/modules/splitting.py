"""Gated MLPs whose first product, activation and last product are computed apart.

Kernels fuse the activation with the first product. What changes the first product's
result, such as an adapter, needs it in between; it gets the same packed weights.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from hookline_kernels.modules.pre_norm import Product


class SplitGated(NamedTuple):
    """The parts of down(activation(gate(x)) · up(x)) + residual.

    Attributes:
        gate_up: [T, in] → [T, 2 · width], gates and ups side by side, contiguous.
        gate: [T, 2 · width] → [T, width], the activation.
        down: [T, width] → [T, in], plus a residual.
        width: Number of gates in a row, and of ups.
        block: This many gates are followed by as many ups in a row of `gate_up`; 0 if
            all gates come before all ups.
    """

    gate_up: Callable[[torch.Tensor], torch.Tensor]
    gate: Callable[[torch.Tensor], torch.Tensor]
    down: Product
    width: int
    block: int = 0


@runtime_checkable
class SplittableProduct(Product, Protocol):
    """The product of a gated MLP, whose parts can be computed apart."""

    def split(self) -> SplitGated:
        """Returns the parts, over the same weights.

        Raises:
            KernelError: The module is not a gated MLP.
        """
        ...


class RowsProduct:
    """A product of rows that do not lie in blocks."""

    of_blocks = None

    def __init__(self, multiply: Callable[..., torch.Tensor]) -> None:
        """Wraps a product that takes values and a residual."""
        self._multiply = multiply

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self._multiply(values, residual)
