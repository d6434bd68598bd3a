"""Linear layers with packed weights, and several that read the same input as one."""

from collections.abc import Sequence
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
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.is_packed = can_pack(weight)
        kept = pack(weight) if self.is_packed else weight
        self.weight = nn.Parameter(kept, requires_grad=False)
        given = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.register_parameter("bias", given)
        self._product = packed_linear if self.is_packed else plain_linear
        self._operands = (self.weight, self.bias)
        self._compiled = _compiled(kept, given) if self.is_packed else ()

    def forward(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The result, and the summand; with one that is not packed, values are flat."""
        if values.ndim == 2:
            for product in self._compiled:
                if len(values) <= product.most:
                    return product(values, summand)
        return self._product(values, *self._operands, summand=summand)

    __call__ = forward


class _Product(Protocol):
    """One that is quicker for at most so many rows."""

    most: int

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor: ...


def _compiled(weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[_Product, ...]:
    """For few rows and for more; none without a compiler, or for this weight."""
    try:
        few_rows = import_module("hookline_kernels.cpu.few_rows")
        many_rows = import_module("hookline_kernels.cpu.many_rows")
        few = few_rows.few_rows(weight, bias)
        if few is None:
            return ()
        return few, many_rows.ManyRows(weight, bias, width=few.width)
    except (ImportError, KernelError):
        return ()


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
