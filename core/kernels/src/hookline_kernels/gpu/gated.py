"""SiLU of a gate times the other half: the activation of a gated MLP."""

import torch

from hookline_kernels.gpu.chaining import chained, follow, lead
from hookline_kernels.gpu.jit import kernel, tl

_TILE = 1024


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """SiLU (Elfwing et al. 2017) of the first half of each row, times the second.

    SiLU is rounded to the dtype before the product, as in `transformers`.

    Args:
        gate_up: [T, 2 · width], bfloat16, float16 or float32.

    Returns:
        [T, width] of the same dtype, contiguous.
    """
    if gate_up.stride(-1) != 1:
        gate_up = gate_up.contiguous()
    tokens, both = gate_up.shape
    width = both // 2
    output = gate_up.new_empty(tokens, width)
    if output.numel():
        _silu_mul_kernel[(tokens, -(-width // _TILE))](
            *(gate_up, gate_up.stride(0), output, width),
            tile=_TILE,
            num_warps=4,
            **chained(gate_up.device),
        )
    return output


@kernel
def _silu_mul_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    gate_up: tl.tensor,
    token_stride: tl.tensor,
    output: tl.tensor,
    width: tl.tensor,
    tile: tl.constexpr,
    chains: tl.constexpr = False,
) -> None:
    """Computes a part of one row."""
    lead(chains)
    follow(chains)
    token = tl.program_id(0).to(tl.int64)
    dims = tl.program_id(1) * tile + tl.arange(0, tile)
    mask = dims < width
    at = gate_up + token * token_stride + dims
    gate = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(at + width, mask=mask, other=0.0).to(tl.float32)
    power = tl.exp(-tl.abs(gate))  # of −|x|, which cannot overflow
    sigmoid = tl.where(gate >= 0, 1.0, power) / (1.0 + power)
    dtype: tl.constexpr = output.dtype.element_ty
    silu = (gate * sigmoid).to(dtype).to(tl.float32)
    tl.store(output + token * width + dims, (silu * up).to(dtype), mask=mask)
