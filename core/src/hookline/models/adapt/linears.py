"""Linear layers with packed weights, and several that read the same input as one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TypeGuard

import torch
from torch import nn

from hookline_kernels.cpu.linear import can_pack, pack, packed_linear, plain_linear
from hookline_kernels.failure import KernelError


class FastLinear(nn.Linear):
    """A linear layer whose weight is packed, if packing pays for it.

    Packed or not, `weight` has the shape of a linear layer's. Calls go around the hooks
    of modules and their search for attributes, which small products notice.

    Attributes:
        least_in_blocks: As of `BlockProduct`.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        products = _in_panels(weight, bias) or _by_torch(weight, bias)
        self.is_packed = products.weight is not weight
        self.weight = nn.Parameter(products.weight, requires_grad=False)
        given = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.register_parameter("bias", given)
        self._for_few, self._product = products.for_few, products.for_all
        self.least_in_blocks: int | None = None
        if products.of_blocks is not None:
            self.least_in_blocks, self.of_blocks = products.of_blocks

    def forward(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The result, and the summand; with one that is not packed, values are flat."""
        if values.ndim == 2:
            for most, product in self._for_few:
                if len(values) <= most:
                    return product(values, summand)
        return self._product(values, summand)

    __call__ = forward


class _Product(Protocol):
    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class _Products:
    """How a layer is computed.

    Attributes:
        weight: As these products read it.
        for_all: Takes any number of rows.
        for_few: What is quicker for at most so many rows, the fewest first.
        of_blocks: From how many rows, and what then takes them in blocks.
    """

    weight: torch.Tensor
    for_all: _Product
    for_few: tuple[tuple[int, _Product], ...] = ()
    of_blocks: tuple[int, Callable[..., torch.Tensor]] | None = None


def _in_panels(weight: torch.Tensor, bias: torch.Tensor | None) -> _Products | None:
    """In float32; None without a compiler, or for this weight."""
    try:
        panels = import_module("hookline_kernels.cpu.float32_gemm")
        laid = panels.lay_floats(weight)
        product = panels.FloatPanels(laid, bias)
    except (ImportError, KernelError):
        return None
    try:
        split_panels = import_module("hookline_kernels.cpu.bf16x3_gemm")
        for_many = split_panels.SplitPanels(split_panels.split(weight), bias)
    except KernelError:
        return _Products(laid, product)
    return _Products(laid, for_many, ((for_many.least - 1, product),))


def _by_torch(weight: torch.Tensor, bias: torch.Tensor | None) -> _Products:
    """By oneDNN's or by plain products, and in bfloat16 by kernels of few rows."""
    if not can_pack(weight):
        return _Products(weight, _bound(plain_linear, weight, bias))
    packed = pack(weight)
    for_all = _bound(packed_linear, packed, bias)
    try:
        few_rows = import_module("hookline_kernels.cpu.skinny_gemm")
        many_rows = import_module("hookline_kernels.cpu.gemm")
        few = few_rows.few_rows(packed, bias)
        if few is None:
            return _Products(packed, for_all)
        many, in_blocks = (
            many_rows.ManyRows(packed, bias, width=few.width, in_blocks=each)
            for each in (False, True)
        )
    except (ImportError, KernelError):
        return _Products(packed, for_all)
    for_few = ((few.most, few), (many.most, many))
    return _Products(packed, for_all, for_few, (few.most + 1, in_blocks.of_blocks))


def _bound(
    product: Callable[..., torch.Tensor],
    weight: torch.Tensor,
    bias: torch.Tensor | None,
) -> _Product:
    def multiply(
        values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        return product(values, weight, bias, summand=summand)

    return multiply


def joined(linears: Sequence[nn.Linear]) -> FastLinear:
    """One layer that gives the results of several side by side."""
    biases = [each.bias for each in linears if each.bias is not None]
    return FastLinear(
        torch.cat(tuple(each.weight for each in linears)),
        torch.cat(tuple(biases)) if biases else None,
    )


def are_joinable(linears: Sequence[object]) -> TypeGuard[Sequence[nn.Linear]]:
    """Plain linear layers of one input width, all with a bias or none."""
    plain = [each for each in linears if type(each) is nn.Linear]
    return (
        len(plain) == len(linears)
        and len({each.in_features for each in plain}) == 1
        and len({each.weight.dtype for each in plain}) == 1
        and len({each.bias is None for each in plain}) == 1
    )
