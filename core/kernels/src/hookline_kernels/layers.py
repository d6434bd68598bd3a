"""What layers compute around attention, in plain torch; kernels are checked with it.

Norms, rotary embedding and gates round where `transformers` rounds in its Llama and
Qwen3.
"""

import torch
from torch.nn import functional


def rms_norm_reference(
    values: torch.Tensor, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
) -> torch.Tensor:
    """[..., width] divided by the root mean square, and weighted.

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
    """[T, heads, head dim] turned by angles of [T, turned]; what is behind them stays.

    The first half of what is turned pairs with the second.
    """
    turned, rest = values.tensor_split([cosines.shape[-1]], -1)
    first, second = turned.chunk(2, -1)
    crossed = torch.cat((-second, first), -1)
    turned = turned * cosines[:, None] + crossed * sines[:, None]
    return torch.cat((turned, rest), -1)


def gated_reference(values: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    """activation(first half) · second half, of [T, 2 · width].

    Args:
        values: Gates and what they gate.
        activation: `silu` or `gelu_tanh`.
    """
    gates, ups = values.chunk(2, -1)
    if activation == "silu":
        return functional.silu(gates) * ups
    return functional.gelu(gates, approximate="tanh") * ups
