"""Products of several quantized layers of the same input, and whole gated MLPs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import nn

from hookline_kernels import KernelError, import_compiled
from hookline_kernels.modules.gated import CHILDREN, name_of_activation
from hookline_kernels.modules.pre_norm import BlockProduct, Product
from hookline_kernels.modules.quantized_layer import QuantizedLayer
from hookline_kernels.modules.splitting import RowsProduct, SplitGated
from hookline_kernels.quantized_weight import (
    HALF,
    QuantizedWeight,
    are_alike,
    joined,
)
from hookline_quantized.linear import QuantizedLinear

if TYPE_CHECKING:
    from hookline_kernels.cpu.quantized_linear import QuantizedGatedMlp


class QuantizedLayers:
    """A product by kernels, as a decoder's layers call it."""

    def __init__(
        self,
        multiply: Callable[..., torch.Tensor],
        least: int | None,
        of_blocks: Callable[..., torch.Tensor],
    ) -> None:
        """Wraps a product and its form for rows in blocks, if there is a `least`."""
        self._multiply = multiply
        self.of_blocks = None if least is None else BlockProduct(least, of_blocks)

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self._multiply(values, residual)


class QuantizedGated(QuantizedLayers):
    """A gated MLP by kernels, as a decoder's layers call it."""

    def __init__(self, mlp: "QuantizedGatedMlp") -> None:
        """Wraps the kernels."""
        super().__init__(mlp, mlp.least_in_blocks, mlp.of_blocks)
        self._mlp = mlp

    def split(self) -> SplitGated:
        """Implements `SplittableProduct`."""
        gate_up, gate, down = self._mlp.split()
        return SplitGated(gate_up, gate, RowsProduct(down), self._mlp.width, HALF)


class JoinableLinear(QuantizedLinear):
    """A quantized layer that shares products with others of the same input."""

    def is_joinable(self, linears: Sequence[object]) -> bool:
        return _are_joinable(linears)

    def joined_with(self, linears: Sequence[QuantizedLayer]) -> Product:
        assert _are_joinable(linears)
        return _joined_product(linears)

    def gated_product(self, module: nn.Module) -> Product | None:
        return _gated_product(module)


def quantized_linear(
    weight: QuantizedWeight,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    *,
    may_compile: bool,
) -> JoinableLinear:
    """Returns a layer that uses kernels if it may and they can be compiled."""
    if may_compile:
        try:
            return JoinableLinear(weight, bias, dtype, may_compile=True)
        except KernelError:
            pass  # no compiler is installed
    return JoinableLinear(weight, bias, dtype, may_compile=False)


def _are_joinable(linears: Sequence[object]) -> TypeGuard[Sequence[QuantizedLinear]]:
    """Whether all are quantized layers that one product can compute, or computes."""
    layers = [each for each in linears if isinstance(each, QuantizedLinear)]
    if len(layers) == len(linears) and layers[0].joined is not None:
        return all(each.joined is layers[0].joined for each in layers)
    weights = [each.quantized for each in layers if each.quantized is not None]
    return (
        len(weights) == len(linears)
        and are_alike(weights)
        and len({each.bias is None for each in layers}) == 1
    )


def _joined_product(
    linears: Sequence[QuantizedLinear],
) -> QuantizedLayers | QuantizedLinear:
    """Joins layers, which then use the joined weight, too; does so once.

    Raises:
        KernelError: No kernel supports them.
    """
    if isinstance(linears[0].joined, QuantizedLayers):
        return linears[0].joined
    if len(linears) == 1:
        return linears[0]
    biases = [each.bias for each in linears if each.bias is not None]
    dtype = linears[0].dtype
    weight = joined([_weight(each) for each in linears])
    kernels = import_compiled("hookline_kernels.cpu.quantized_linear")
    bias = torch.cat(tuple(biases)) if biases else None
    product = kernels.QuantizedProduct(weight, bias, dtype)
    whole = QuantizedLayers(product, product.least_in_blocks, product.of_blocks)
    start = 0
    for each in linears:
        end = start + each.out_features
        each.join(whole, product, partial(_columns, start=start, end=end))
        start = end
    return whole


def _gated_product(module: nn.Module) -> QuantizedGated | None:
    """Returns the product of a gated MLP of quantized layers without biases."""
    children = dict(module.named_children())
    if not {*children} <= CHILDREN or not callable(getattr(module, "act_fn", None)):
        return None
    gate, up, down = (
        children.get(name) for name in ("gate_proj", "up_proj", "down_proj")
    )
    if not _are_joinable([gate, up]) or not _are_joinable([down]):
        return None
    assert isinstance(gate, QuantizedLinear)
    assert isinstance(up, QuantizedLinear)
    assert isinstance(down, QuantizedLinear)
    if isinstance(gate.joined, QuantizedGated):
        return gate.joined
    activation = name_of_activation(module.act_fn, torch.device("cpu"))
    if activation is None or any(each.bias is not None for each in (gate, up, down)):
        return None
    kernels = import_compiled("hookline_kernels.cpu.quantized_linear")
    own = kernels.QuantizedProduct(_weight(down), None, down.dtype)
    try:
        mlp = kernels.QuantizedGatedMlp(
            _weight(gate), _weight(up), own, gate.dtype, activation
        )
    except KernelError:
        return None
    whole = QuantizedGated(mlp)
    for side, each in enumerate((gate, up)):
        each.join(whole, mlp.gate_up, partial(_alternate, side=side))
    return whole


def _weight(linear: QuantizedLinear) -> QuantizedWeight:
    assert linear.quantized is not None
    return linear.quantized


def _columns(results: torch.Tensor, *, start: int, end: int) -> torch.Tensor:
    return results[..., start:end]


def _alternate(results: torch.Tensor, *, side: int) -> torch.Tensor:
    """Returns every other 16 results."""
    pairs: torch.Tensor = results.unflatten(-1, (-1, 2, HALF))
    return pairs[..., side, :].flatten(-2)
