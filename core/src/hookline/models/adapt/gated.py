"""Gated feed-forward layers: the activation is part of the products."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from hookline.models.adapt.linears import FastLinear, are_joinable
from hookline.models.adapt.trial import agree, random_values
from hookline_kernels.cpu.linear import can_pack, packed_linear
from hookline_registry import isolate

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda values: functional.gelu(values, approximate="tanh"),
    "relu": functional.relu,
}
_CHILDREN = {"gate_proj", "up_proj", "down_proj", "act_fn"}


class FastGated(nn.Module):
    """down(activation(gate(x)) · up(x)), in three products and nothing else."""

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        super().__init__()
        self.gate_proj = FastLinear(gate.weight, gate.bias)
        self.up_proj = FastLinear(up.weight, up.bias)
        self.down_proj = FastLinear(down.weight, down.bias)
        self._activation = activation

        self._gate = (self.gate_proj.weight, self.gate_proj.bias)
        self._up = (self.up_proj.weight, self.up_proj.bias)
        self._down = (self.down_proj.weight, self.down_proj.bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        gates = packed_linear(values, *self._gate, activation=self._activation)
        products = packed_linear(values, *self._up, factor=gates)
        return packed_linear(products, *self._down)

    __call__ = forward


def fast_gated(module: nn.Module) -> FastGated | None:
    """What replaces a module, if it is such a layer and packing pays for it."""
    children = dict(module.named_children())
    if not {*children} <= _CHILDREN or not callable(getattr(module, "act_fn", None)):
        return None
    gate, up, down = (
        children.get(name) for name in ("gate_proj", "up_proj", "down_proj")
    )
    if not isinstance(gate, nn.Linear) or not isinstance(up, nn.Linear):
        return None
    if type(down) is not nn.Linear or not are_joinable([gate, up]):
        return None
    if not can_pack(gate.weight):
        return None
    activation = _name_of(module.act_fn)
    if activation is None:
        return None
    fast = FastGated(gate, up, down, activation)
    return (
        fast
        if agree(module, fast, random_values(gate.in_features, gate.weight))
        else None
    )


def _name_of(activation: object) -> str | None:
    """Which of the known ones a module's activation is."""
    assert callable(activation)
    values = torch.linspace(-6, 6, 97)
    found = isolate(activation, values)
    if not isinstance(found, torch.Tensor):
        return None
    return next(
        (
            name
            for name, known in _ACTIVATIONS.items()
            if torch.allclose(known(values), found, atol=1e-6)
        ),
        None,
    )
