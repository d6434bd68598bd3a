"""A linear layer with a quantized weight."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from hookline_kernels import import_compiled
from hookline_kernels.modules.pre_norm import BlockProduct
from hookline_kernels.modules.quantized_layer import QuantizedLayer
from hookline_kernels.quantized_weight import (
    BYTE_BITS,
    QuantizedWeight,
    as_integers,
    dequantize,
)

Multiply = Callable[..., torch.Tensor]


class QuantizedLinear(QuantizedLayer):
    """values · weightᵀ + bias, by kernels, or by torch where they may not be used.

    Attributes:
        quantized: The weight; None if another layer's product contains it.
        of_blocks: The product for rows in blocks; None if it has none.
        joined: The product that contains it, which the layers of the same input share.
    """

    def __init__(
        self,
        weight: QuantizedWeight,
        bias: torch.Tensor | None,
        dtype: torch.dtype,
        *,
        may_compile: bool,
    ) -> None:
        """Wraps a weight.

        Args:
            weight: The packed weight.
            bias: [out], or None.
            dtype: Type of values and results.
            may_compile: Use kernels. Torch expands the weight at each call.
        """
        nn.Module.__init__(self)
        self.in_features, self.out_features = weight.in_features, weight.out_features
        self.dtype = dtype
        self.quantized: QuantizedWeight | None = weight
        self.multiplies_integers = weight.activation_bits == BYTE_BITS
        for name in ("codes", "scales", "shifts", "order"):
            held = getattr(weight, name)
            self.register_parameter(name, None if held is None else _parameter(held))
        own = None if bias is None else _parameter(bias.detach().to(dtype))
        self.register_parameter("bias", own)
        self.of_blocks: BlockProduct | None = None
        self.joined: object | None = None
        self._multiply: Multiply = self._by_torch
        if may_compile:
            self._compile(weight, own)

    def _compile(self, weight: QuantizedWeight, bias: torch.Tensor | None) -> None:
        kernels = import_compiled("hookline_kernels.cpu.quantized_linear")
        product = kernels.QuantizedProduct(weight, bias, self.dtype)
        self._multiply = product
        if product.least_in_blocks is not None:
            self.of_blocks = BlockProduct(product.least_in_blocks, product.of_blocks)

    def forward(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[..., in] → [..., out], plus the residual."""
        return self._multiply(values, residual)

    __call__ = forward

    @property
    def bits(self) -> int | None:
        return None if self.quantized is None else self.quantized.bits

    def dequantized(self) -> torch.Tensor | None:
        if self.quantized is None:
            return None
        return dequantize(self.quantized).to(self.dtype)

    def join(
        self, whole: object, product: Multiply, part: Callable[..., torch.Tensor]
    ) -> None:
        """Gives the weight away to a product that contains it.

        Args:
            whole: What others of the same input are found by: `joined`.
            product: Computes this layer's results, and others of the same input.
            part: Selects this layer's among them.
        """
        for name in ("codes", "scales", "shifts", "order", "bias"):
            self.register_parameter(name, None)
        self.quantized, self.of_blocks, self.joined = None, None, whole

        def multiply(
            values: torch.Tensor, residual: torch.Tensor | None = None
        ) -> torch.Tensor:
            found = part(product(values))
            return found.contiguous() if residual is None else found + residual

        self._multiply = multiply

    def _by_torch(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        assert self.quantized is not None
        weight = dequantize(self.quantized).to(self.dtype)
        if self.quantized.activation_bits == BYTE_BITS:
            values = as_integers(values, self.quantized.activation_group)
        found = functional.linear(values, weight, self.bias)
        return found if residual is None else found + residual


def _parameter(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)
