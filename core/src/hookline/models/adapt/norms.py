"""RMSNorm layers as one kernel."""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import nn

from hookline.models.adapt.trial import agree, random_values
from hookline_kernels.failure import KernelError

_EPSILONS = ("variance_epsilon", "eps")


class NormKernel(Protocol):
    """An RMSNorm of one weight."""

    def __call__(self, values: torch.Tensor) -> torch.Tensor: ...


class BlockNorm(NormKernel, Protocol):
    """One that can lay rows as products of many rows read them.

    Attributes:
        lays_blocks: Whether it can those of its weight.
    """

    lays_blocks: bool

    def in_blocks(self, values: torch.Tensor) -> torch.Tensor: ...


class MakeNorm(Protocol):
    """Makes kernels for one kind of device."""

    def __call__(
        self, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
    ) -> NormKernel:
        """Raises `KernelError` or `ImportError` if there is none."""
        ...


class FastNorm(nn.Module):
    """RMSNorm; with `unit_offset` the weight counts from 1.

    Attributes:
        in_blocks: The kernel's own, if it lays blocks.
    """

    def __init__(
        self, weight: torch.Tensor, epsilon: float, make: MakeNorm, *, unit_offset: bool
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.epsilon, self.unit_offset = epsilon, unit_offset
        self._norm = kernel = make(self.weight, epsilon, unit_offset=unit_offset)
        self.in_blocks: Callable[[torch.Tensor], torch.Tensor] | None = None
        if getattr(kernel, "lays_blocks", False):
            self.in_blocks = cast("BlockNorm", kernel).in_blocks

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._norm(values)

    __call__ = forward  # the hooks of modules cost more than a small norm


def compiled_norm(
    weight: torch.Tensor, epsilon: float, *, unit_offset: bool
) -> NormKernel:
    """For processors."""
    module = import_module("hookline_kernels.cpu.norm")  # needs the compiler
    kernel: NormKernel = module.RmsNorm(weight, epsilon, unit_offset=unit_offset)
    return kernel


def fast_norm(module: nn.Module, make: MakeNorm = compiled_norm) -> FastNorm | None:
    """What replaces a module, if it computes an RMSNorm of either kind."""
    epsilon = next(
        (value for name in _EPSILONS if (value := getattr(module, name, None))), None
    )
    parameters = dict(module.named_parameters())
    weight = parameters.get("weight")
    if weight is None or len(parameters) != 1 or not isinstance(epsilon, float):
        return None
    if weight.ndim != 1:
        return None
    for unit_offset in (False, True):
        try:
            fast = FastNorm(weight, epsilon, make, unit_offset=unit_offset)
        except (ImportError, KernelError):
            return None
        if agree(module, fast, random_values(len(weight), weight)):
            return fast
    return None
