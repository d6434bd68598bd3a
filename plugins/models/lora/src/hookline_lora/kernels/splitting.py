"""A gated MLP whose first product adapters change, before the activation."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from hookline_kernels import KernelError
from hookline_kernels.modules.pre_norm import Product
from hookline_kernels.modules.splitting import SplitGated, SplittableProduct
from hookline_lora.kernels.slices import Slice


class SplitMlp(NamedTuple):
    """The parts of a gated MLP, over the weights of its fused kernels.

    Attributes:
        gate_up: [T, in] → [T, 2 · width] contiguous, to which adapters add.
        gate: [T, 2 · width] → [T, width], the activation.
        down: [T, width] → [T, in], plus a residual.
        slices: Where gates and ups lie in the columns of `gate_up`.
    """

    gate_up: Callable[[torch.Tensor], torch.Tensor]
    gate: Callable[[torch.Tensor], torch.Tensor]
    down: Product
    slices: tuple[Slice, Slice]


def split(product: Product) -> SplitMlp:
    """Returns the parts of the product of a gated MLP.

    Raises:
        KernelError: It is none, or its parts cannot be computed apart.
    """
    if not isinstance(product, SplittableProduct):
        raise KernelError(
            f"adapters of a feed-forward layer need its gate and up projections, but "
            f"{type(product).__name__} computes it as a whole"
        )
    parts = product.split()
    return SplitMlp(parts.gate_up, parts.gate, parts.down, _slices(parts))


def _slices(parts: SplitGated) -> tuple[Slice, Slice]:
    width, block = parts.width, parts.block
    if not block:
        return Slice(0, width), Slice(width, width)
    return Slice(0, width, block, 2 * block), Slice(block, width, block, 2 * block)
