"""Gated feed-forward layers: gate and up are one product.

Where the processor's matrix unit can take the layer as a whole, it does.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, TypeVar

import torch
from torch import nn
from torch.nn import functional

from hookline.models.adapt.linears import FastLinear, are_joinable, joined
from hookline.models.adapt.trial import agree, random_values
from hookline_kernels.failure import KernelError
from hookline_registry import isolate

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu_tanh": lambda values: functional.gelu(values, approximate="tanh"),
}
_TRIALS = (5, 40)
"""Tokens; few and many go different ways."""
Gated_co = TypeVar("Gated_co", bound=Callable[..., torch.Tensor], covariant=True)
_CHILDREN = {"gate_proj", "up_proj", "down_proj", "act_fn"}


class FastGated(nn.Module):
    """down(activation(gate(x)) · up(x)), and perhaps a summand: two products."""

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        """Raises `KernelError` or `ImportError` if there is no kernel for it."""
        super().__init__()
        gates = import_module("hookline_kernels.cpu.gated")  # needs the compiler
        self.gate_up_proj = joined([gate, up])
        self.down_proj = FastLinear(down.weight, down.bias)
        self._gate = gates.Gate(gate.out_features, gate.weight.dtype, activation)
        self._parts = (self.gate_up_proj, self._gate, self.down_proj)

    def forward(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        gate_up, gate, down = self._parts
        return down(gate(gate_up(values)), summand)

    __call__ = forward


class TiledGated(nn.Module):
    """The same, as the processor's matrix unit takes it.

    Attributes:
        least_in_blocks: As of `BlockProduct`.
    """

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        """Raises `KernelError` or `ImportError` if there is no kernel for it."""
        super().__init__()
        if any(each.bias is not None for each in (gate, up, down)):
            raise KernelError("its kernel knows no bias")
        kernels = import_module("hookline_kernels.cpu.feed_forward")
        self._layer = kernels.FeedForward(
            gate.weight, up.weight, down.weight, activation
        )
        self.least_in_blocks: int | None = self._layer.least_in_blocks
        self.of_blocks: Callable[..., torch.Tensor] = self._layer.of_blocks

    def forward(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        if values.ndim == 2:
            return self._layer(values, summand)  # type: ignore[no-any-return]
        flat = None if summand is None else summand.flatten(0, -2)
        found: torch.Tensor = self._layer(values.flatten(0, -2), flat)
        return found.view(values.shape)

    __call__ = forward


class MakeGated(Protocol[Gated_co]):
    """Makes such layers for one kind of device."""

    def __call__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> Gated_co:
        """Raises `KernelError` or `ImportError` if there is no kernel for it."""
        ...


def fast_gated(module: nn.Module) -> FastGated | TiledGated | None:
    """What replaces a module on processors, if it is such a layer."""
    return gated_by(TiledGated, module) or gated_by(FastGated, module)


def gated_by(make: MakeGated[Gated_co], module: nn.Module) -> Gated_co | None:
    """What computes a module's results, if it is such a layer."""
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
    activation = _name_of(module.act_fn, gate.weight.device)
    if activation is None:
        return None
    try:
        fast = make(gate, up, down, activation)
    except (ImportError, KernelError):
        return None
    trials = (random_values(gate.in_features, gate.weight, count) for count in _TRIALS)
    return fast if all(agree(module, fast, trial) for trial in trials) else None


def _name_of(activation: object, device: torch.device) -> str | None:
    """Which of the known ones a module's activation is."""
    assert callable(activation)
    values = torch.linspace(-6, 6, 97, device=device)
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
