"""Numbers of 8 bits in a KV cache: what they mean, and their conversion in torch.

int8 has a scale for each token and head, chosen when the token is written: its largest
number becomes ±127. Numbers of 8-bit floating point (Micikevicius et al. 2022) have no
scale; what exceeds their largest is clamped to it.
"""

import torch

SCALED = torch.int8
"""The dtype whose tokens have scales."""
SCALE = torch.bfloat16
"""Of scales: 8 bits are enough, for numbers are divided by the rounded scale."""
LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
EIGHT_BITS = (SCALED, *LARGEST)
"""Dtypes of caches that may differ from the dtype of queries."""

_NAMES = {torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2"}
_MOST = 127
_LEAST_SCALE = 1e-30
"""A token whose numbers are smaller is stored as zeros."""


def quantized(
    values: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns [..., dim] in a dtype of `EIGHT_BITS`, and its scales [...], if any.

    Rounds to nearest, ties to even. A not-a-number makes its token's scale one, too.
    """
    wide = values.float()
    if dtype != SCALED:
        most = LARGEST[dtype]
        return wide.clamp(-most, most).to(dtype), None
    scales = (wide.abs().amax(-1) * (1 / _MOST)).to(SCALE)
    scales = torch.where(scales.float() < _LEAST_SCALE, 0.0, scales)
    inverse = torch.where(scales == 0, 0.0, 1 / scales.float())
    numbers = (wide * inverse[..., None]).nan_to_num().round()
    return numbers.to(dtype), scales


def dequantized(
    numbers: torch.Tensor, scales: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """Returns what `quantized` stored, rounded to a floating-point dtype."""
    if scales is None:
        return numbers.to(dtype)
    return (numbers.float() * scales.float()[..., None]).to(dtype)


def dtype_name(dtype: torch.dtype) -> str:
    """Returns a name such as `bfloat16` or `fp8_e4m3`."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))
