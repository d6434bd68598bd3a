"""RMSNorm layers as one kernel."""

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import nn

from hookline_kernels import KernelError, import_compiled
from hookline_kernels.modules.trial import agree, random_values

_log = logging.getLogger(__name__)

_EPSILONS = ("variance_epsilon", "eps")

Norm = Callable[[torch.Tensor], torch.Tensor]


class NormKernel(NamedTuple):
    """An RMSNorm of one weight.

    Attributes:
        norm: [..., width] → the same.
        in_blocks: The same, laid out in blocks for products of many rows; None if the
            kernel cannot.
    """

    norm: Norm
    in_blocks: Norm | None = None


class MakeNorm(Protocol):
    """Makes norm kernels for one kind of device."""

    def __call__(
        self, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
    ) -> NormKernel:
        """Raises `KernelError` if no kernel supports it."""
        ...


class FastNorm(nn.Module):
    """RMSNorm by a kernel; with `unit_offset` it scales by 1 + weight.

    Attributes:
        in_blocks: The kernel's form for products of many rows, if it has one.
    """

    def __init__(
        self, weight: torch.Tensor, epsilon: float, make: MakeNorm, *, unit_offset: bool
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.epsilon, self.unit_offset = epsilon, unit_offset
        kernel = make(self.weight, epsilon, unit_offset=unit_offset)
        self._norm, self.in_blocks = kernel.norm, kernel.in_blocks

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._norm(values)

    __call__ = forward  # skips the hooks of modules, which cost more than a small norm


def compiled_norm(
    weight: torch.Tensor, epsilon: float, *, unit_offset: bool
) -> NormKernel:
    """Makes a norm kernel for CPUs.

    Raises:
        KernelError: No compiler is installed, or no kernel for the dtype.
    """
    kernels = import_compiled("hookline_kernels.cpu.norm")
    kernel = kernels.RmsNorm(weight, epsilon, unit_offset=unit_offset)
    return NormKernel(kernel, kernel.in_blocks if kernel.lays_blocks else None)


def fast_norm(module: nn.Module, make: MakeNorm = compiled_norm) -> FastNorm | None:
    """Returns a replacement for a module that computes an RMSNorm of either kind."""
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
        except KernelError as error:
            _log.debug("an RMSNorm stays a module: %s", error)
            return None
        if agree(module, fast, random_values(len(weight), weight)):
            return fast
    return None
