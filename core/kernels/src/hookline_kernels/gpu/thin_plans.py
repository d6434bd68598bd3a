"""Which products of few rows `thin_product` computes, and how.

The choices were measured on an H200, in bfloat16, with the layers of models of 0.6, 1
and 8 billion parameters. Other products, and other numbers of rows, are cuBLAS's.
"""

import torch

from hookline_kernels.gpu.chaining import is_chained
from hookline_kernels.gpu.thin import ThinPlan

LEAST_NUMBERS = 1 << 19
"""Numbers of a weight below which launches take all of the time."""
_MOST_STEPS = 16
"""Steps of a program on registers, which are unrolled."""
_FEW_OUTS = 2048
"""Outputs up to which few programs share a product, so that tiles must be small."""


def plans_of(weight: torch.Tensor, *, gated: bool = False) -> dict[int, ThinPlan]:
    """Returns the plans by number of rows; rows that are missing are cuBLAS's.

    Args:
        weight: [out, in], as `thin_product` takes it.
        gated: As `thin_product` takes it.
    """
    outs, width = weight.shape
    if weight.itemsize != 2 or weight.numel() < LEAST_NUMBERS:
        return {}
    plans = {1: _vectors(outs, width)}
    return {
        rows: plan for rows, plan in plans.items() if _fits(plan, width, weight.device)
    }


def _vectors(outs: int, width: int) -> ThinPlan:
    """Returns the plan of one row, whose weights stay in registers."""
    if outs <= _FEW_OUTS and width >= 2048:
        return ThinPlan(tile=2, step=2048, warps=4)
    return ThinPlan(tile=4, step=1024, warps=4)


def _fits(plan: ThinPlan, width: int, device: torch.device) -> bool:
    """Whether the kernel is not too large for this width, or for the device."""
    if plan.stages:
        return is_chained(device)
    return width <= _MOST_STEPS * plan.step
