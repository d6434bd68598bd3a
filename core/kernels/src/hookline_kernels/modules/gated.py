"""Gated MLPs: gate and up projection are one product.

Where kernels can take the layer as a whole, they do.
"""

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from torch import nn
from torch.nn import functional

from hookline_kernels import KernelError, import_compiled
from hookline_kernels.modules.linears import FastLinear, Rows, are_joinable, joined
from hookline_kernels.modules.pre_norm import BlockProduct
from hookline_kernels.modules.splitting import RowsProduct, SplitGated
from hookline_kernels.modules.trial import MODULE_ERRORS, agree, random_values
from hookline_kernels.quantized_weight import HALF

_log = logging.getLogger(__name__)

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu_tanh": lambda values: functional.gelu(values, approximate="tanh"),
}
_TRIALS = (5, 40)
"""Numbers of tokens; few and many take different kernels."""
Gated_co = TypeVar("Gated_co", bound=Callable[..., torch.Tensor], covariant=True)
CHILDREN = {"gate_proj", "up_proj", "down_proj", "act_fn"}


class FastGated(nn.Module):
    """down(activation(gate(x)) · up(x)) + residual, in two products."""

    of_blocks = None

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        """Raises `KernelError` if no kernel supports it."""
        super().__init__()
        gates = import_compiled("hookline_kernels.cpu.gated")
        self.gate_up_proj = joined([gate, up])
        self.down_proj = FastLinear(down.weight, down.bias)
        self._gate = gates.Gate(gate.out_features, gate.weight.dtype, activation)
        self._parts = (self.gate_up_proj, self._gate, self.down_proj)

    def forward(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        gate_up, gate, down = self._parts
        return down(gate(gate_up(values)), residual)

    __call__ = forward

    def split(self) -> SplitGated:
        """Implements `SplittableProduct`."""
        return SplitGated(*self._parts, self.down_proj.in_features)


class _Fused(Rows, Protocol):
    """A layer whose first product computes the activation."""

    def split(
        self,
    ) -> tuple[
        Callable[[torch.Tensor], torch.Tensor],
        Callable[[torch.Tensor], torch.Tensor],
        Callable[..., torch.Tensor],
    ]: ...


class FusedGated(nn.Module):
    """A gated MLP in bfloat16 whose activation is a part of its first product.

    Attributes:
        of_blocks: The layer for rows in blocks; None without a matrix unit.
    """

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        """Raises `KernelError` if no kernel supports it."""
        super().__init__()
        if any(each.bias is not None for each in (gate, up, down)):
            raise KernelError("the kernel takes no bias")
        weights = gate.weight, up.weight, down.weight
        self._width = gate.out_features
        self._layer, self.of_blocks = _fused(weights, activation)

    def forward(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        if values.ndim == 2:
            return self._layer(values, residual)
        flat = None if residual is None else residual.flatten(0, -2)
        return self._layer(values.flatten(0, -2), flat).view(values.shape)

    __call__ = forward

    def split(self) -> SplitGated:
        """Implements `SplittableProduct`."""
        gate_up, gate, down = self._layer.split()
        return SplitGated(gate_up, gate, RowsProduct(down), self._width, HALF)


def _fused(
    weights: tuple[torch.Tensor, torch.Tensor, torch.Tensor], activation: str
) -> tuple[_Fused, BlockProduct | None]:
    """Returns a layer on tiles or with vectors, and its form for rows in blocks.

    Raises:
        KernelError: No kernel supports it.
    """
    try:
        tiles = import_compiled("hookline_kernels.cpu.feed_forward")
        layer = tiles.FeedForward(*weights, activation)
    except KernelError as error:
        _log.debug("no gated MLP on the matrix unit: %s", error)
        vectors = import_compiled("hookline_kernels.cpu.vector_feed_forward")
        return vectors.VectorFeedForward(*weights, activation), None
    return layer, BlockProduct(layer.least_in_blocks, layer.of_blocks)


class MakeGated(Protocol[Gated_co]):
    """Makes gated MLPs for one kind of device."""

    def __call__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> Gated_co:
        """Raises `KernelError` if no kernel supports it."""
        ...


def fast_gated(module: nn.Module) -> FastGated | FusedGated | None:
    """Returns a replacement on CPUs for a module that is a gated MLP."""
    return gated_by(FusedGated, module) or gated_by(FastGated, module)


def gated_by(make: MakeGated[Gated_co], module: nn.Module) -> Gated_co | None:
    """Returns what `make` makes of a module that is a gated MLP."""
    children = dict(module.named_children())
    if not {*children} <= CHILDREN or not callable(getattr(module, "act_fn", None)):
        return None
    gate, up, down = (
        children.get(name) for name in ("gate_proj", "up_proj", "down_proj")
    )
    if not isinstance(gate, nn.Linear) or not isinstance(up, nn.Linear):
        return None
    if type(down) is not nn.Linear or not are_joinable([gate, up]):
        return None
    activation = name_of_activation(module.act_fn, gate.weight.device)
    if activation is None:
        return None
    try:
        fast = make(gate, up, down, activation)
    except KernelError as error:
        _log.debug("%s does not take a gated MLP: %s", make, error)
        return None
    trials = (random_values(gate.in_features, gate.weight, count) for count in _TRIALS)
    return fast if all(agree(module, fast, trial) for trial in trials) else None


def name_of_activation(activation: object, device: torch.device) -> str | None:
    """Returns the name of a module's activation, if it is a known one."""
    assert callable(activation)
    values = torch.linspace(-6, 6, 97, device=device)
    try:
        found = activation(values)
    except MODULE_ERRORS:
        return None
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
