"""Plain torch references of the operations around attention.

Norms, rotary embedding and gates round where the Llama and Qwen3 of `transformers` do.
"""

import torch
from torch.nn import functional


def rms_norm_reference(
    values: torch.Tensor, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
) -> torch.Tensor:
    """Divides [..., width] by its root mean square, and scales it.

    With `unit_offset` by 1 + `weight` before rounding to the dtype; else by `weight`
    after it.
    """
    wide = values.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    if unit_offset:
        return (normed * (1.0 + weight.float())).to(values.dtype)
    return weight * normed.to(values.dtype)


def rotate_reference(
    values: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> torch.Tensor:
    """Rotates [T, heads, head dim] by [T, rotated]; the rest of each head stays.

    The first half of the rotated numbers pairs with the second.
    """
    turned, rest = values.tensor_split([cosines.shape[-1]], -1)
    first, second = turned.chunk(2, -1)
    crossed = torch.cat((-second, first), -1)
    turned = turned * cosines[:, None] + crossed * sines[:, None]
    return torch.cat((turned, rest), -1)


def gated_reference(values: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    """Returns activation(first half) · second half of [T, 2 · width].

    Args:
        values: Gates, then ups.
        activation: `silu` or `gelu_tanh`.
    """
    gates, ups = values.chunk(2, -1)
    if activation == "silu":
        return functional.silu(gates) * ups
    return functional.gelu(gates, approximate="tanh") * ups
