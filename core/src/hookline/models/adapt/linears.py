"""Linear layers with packed weights, and several that read the same input as one."""

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import nn
from torch.nn import functional

from hookline_kernels.cpu.linear import can_pack, pack, packed_linear


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
        self._product = packed_linear if self.is_packed else functional.linear
        self._operands = (self.weight, self.bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._product(values, *self._operands)

    __call__ = forward


class JoinedLinears:
    """One product for several linear layers, which a model calls one after another.

    The first call with an input computes all results; the others take theirs. The last
    one taken, nothing is kept. Like the model, it serves one thread.
    """

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        biases = [each.bias for each in linears if each.bias is not None]
        self.linear = FastLinear(
            torch.cat(tuple(each.weight for each in linears)),
            torch.cat(tuple(biases)) if biases else None,
        )
        self._sizes = [each.out_features for each in linears]
        self._values: torch.Tensor | None = None
        self._parts: dict[int, torch.Tensor] = {}

    def part(self, index: int, values: torch.Tensor) -> torch.Tensor:
        """The result of one of the layers; a view with strides."""
        if self._values is not values or index not in self._parts:
            self._values = values
            self._parts = dict(enumerate(self.linear(values).split(self._sizes, -1)))
        result = self._parts.pop(index)
        if not self._parts:
            self._values = None
        return result


class JoinedLinear(nn.Module):
    """One of several joined layers; the first one owns the weights."""

    def __init__(self, joined: JoinedLinears, index: int) -> None:
        super().__init__()
        self._joined = joined
        self._index = index
        if index == 0:
            self.all = joined.linear

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._joined.part(self._index, values)

    __call__ = forward


def are_joinable(linears: Sequence[object]) -> TypeGuard[Sequence[nn.Linear]]:
    """Plain linear layers of one input width, all with a bias or none."""
    plain = [each for each in linears if type(each) is nn.Linear]
    return (
        len(plain) == len(linears)
        and len({each.in_features for each in plain}) == 1
        and len({each.weight.dtype for each in plain}) == 1
        and len({each.bias is None for each in plain}) == 1
    )
