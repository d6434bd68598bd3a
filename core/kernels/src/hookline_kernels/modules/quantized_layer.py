"""Linear layers with quantized weights, as the rest of the engine sees them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import nn

from hookline_kernels.modules.pre_norm import BlockProduct, Product


class QuantizedLayer(nn.Linear, ABC):
    """A linear layer whose weight is no tensor of plain numbers.

    It has no `weight`; its parameters are what it holds in memory. It is a `Product`
    itself, and may give its weight away to one that several layers share.
    """

    of_blocks: BlockProduct | None
    multiplies_integers: bool = False
    """Whether activations become integers, too."""

    @property
    @abstractmethod
    def bits(self) -> int | None:
        """Bits of a number of the weight; None once another product has the weight."""

    @abstractmethod
    def dequantized(self) -> torch.Tensor | None:
        """Returns the weight [out, in]; None once another product has it."""

    @abstractmethod
    def is_joinable(self, linears: Sequence[object]) -> bool:
        """Whether one product can compute these layers, itself among them."""

    @abstractmethod
    def joined_with(self, linears: Sequence["QuantizedLayer"]) -> Product:
        """Returns one product of joinable layers, which use it, too, from now on.

        Raises:
            KernelError: No kernel supports them.
        """

    @abstractmethod
    def gated_product(self, module: nn.Module) -> Product | None:
        """Returns the product of a gated MLP whose gate it is; None without kernels."""


def are_quantized(linears: Sequence[object]) -> TypeGuard[Sequence[QuantizedLayer]]:
    """Whether all are quantized layers that one product can compute, or computes."""
    first = linears[0]
    return isinstance(first, QuantizedLayer) and first.is_joinable(linears)


def gated_product(module: nn.Module) -> Product | None:
    """Returns the product of a gated MLP of quantized layers; None of any other."""
    gate = dict(module.named_children()).get("gate_proj")
    return gate.gated_product(module) if isinstance(gate, QuantizedLayer) else None


def bits_in_words(model: nn.Module) -> str:
    """Names the bits of a model's quantized weights; empty if it has none."""
    layers = [each for each in model.modules() if isinstance(each, QuantizedLayer)]
    bits = sorted({each.bits for each in layers if each.bits is not None})
    if not bits:
        return ""
    integers = any(each.multiplies_integers for each in layers)
    more = ", activations in 8" if integers else ""
    return f"weights in {' and '.join(map(str, bits))} bits{more}"
