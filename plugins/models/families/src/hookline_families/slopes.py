"""Slopes of attention with linear biases (Press et al. 2021, ALiBi)."""

import math
from typing import Any

import torch


def alibi_slopes(num_heads: int) -> torch.Tensor:
    """Returns the slope of each head, [heads] float32.

    These are 2^(-8 / n), 2^(-16 / n), … for n heads, a power of two; other numbers of
    heads take every second slope of the next power of two, then the ones between.
    """
    count = 1 << math.ceil(math.log2(num_heads))
    slopes = 2.0 ** (torch.arange(1, count + 1) * (-8.0 / count))
    if count != num_heads:
        slopes = torch.cat((slopes[1::2], slopes[::2]))[:num_heads]
    return slopes


def slopes_of(module: Any, num_heads: int) -> torch.Tensor:
    """Returns the slopes of a module's heads, [heads] float32.

    Args:
        module: An attention module; of a rank's part of a model, it has `all_heads`,
            their number on all ranks, and `first_head`.
        num_heads: Number of its own heads.
    """
    first = getattr(module, "first_head", 0)
    slopes = alibi_slopes(getattr(module, "all_heads", num_heads))
    return slopes[first : first + num_heads]
