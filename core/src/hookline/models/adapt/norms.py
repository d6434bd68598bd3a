"""RMSNorm layers as one kernel."""

import torch
from torch import nn

from hookline.models.adapt.trial import agree, random_values
from hookline_kernels.cpu.norm import RmsNorm
from hookline_kernels.failure import KernelError

_EPSILONS = ("variance_epsilon", "eps")


class FastNorm(nn.Module):
    """RMSNorm; with `unit_offset` the weight counts from 1."""

    def __init__(
        self, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.epsilon, self.unit_offset = epsilon, unit_offset
        self._norm = RmsNorm(self.weight, epsilon, unit_offset=unit_offset)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._norm(values)

    __call__ = forward  # the hooks of modules cost more than a small norm


def fast_norm(module: nn.Module) -> FastNorm | None:
    """What replaces a module, if it computes an RMSNorm of either kind."""
    epsilon = next(
        (value for name in _EPSILONS if (value := getattr(module, name, None))), None
    )
    parameters = dict(module.named_parameters())
    weight = parameters.get("weight")
    if weight is None or len(parameters) != 1 or not isinstance(epsilon, float):
        return None
    if weight.ndim != 1 or weight.device.type != "cpu":
        return None
    for unit_offset in (False, True):
        try:
            fast = FastNorm(weight, epsilon, unit_offset=unit_offset)
        except KernelError:
            return None
        if agree(module, fast, random_values(len(weight), weight)):
            return fast
    return None
