"""Which products of few rows `thin_product` computes, and how.

Measured on an H200 against cuBLAS and the kernels around it, in bfloat16, with the
layers of models of 0.6, 1 and 8 billion weights: one row gains everywhere, two rows
gain below the memory's speed, and four only where cuBLAS has too few programs.
"""

import torch

from hookline_kernels.gpu.thin import ThinPlan

LEAST_NUMBERS = 1 << 19
"""Numbers of a weight below which launches take all of the time."""
_MOST_OF_TWO = 1 << 25
"""Numbers of a weight from which two rows are better off with cuBLAS."""
_MOST_OF_FOUR = 1 << 22
_FEW_OUTS = 2048
_MOST_STEPS = 16
"""Steps of a program, which are unrolled."""


def plans_of(weight: torch.Tensor, *, gated: bool = False) -> dict[int, ThinPlan]:
    """Returns the plans by number of rows; rows that are missing are cuBLAS's.

    Args:
        weight: [out, in], as `thin_product` takes it.
        gated: As `thin_product` takes it.
    """
    outs, width = weight.shape
    numbers = weight.numel()
    if weight.itemsize != 2 or numbers < LEAST_NUMBERS:
        return {}
    narrows = outs <= width and not gated
    plans = {1: ThinPlan(2, 2048) if narrows else ThinPlan(4, 1024)}
    is_small = numbers <= _MOST_OF_FOUR and outs <= _FEW_OUTS
    if numbers < _MOST_OF_TWO:
        plans[2] = ThinPlan(2 if gated or is_small else 4, 1024)
    if is_small:
        plans[4] = ThinPlan(2, 1024)
    return {
        rows: plan for rows, plan in plans.items() if width <= _MOST_STEPS * plan.step
    }
