"""Quantizes a weight so that its mean squared error is small.

The largest number of a group becomes the lowest code, which is one step further from
zero than the highest. Smaller scales clip it, and round the others finer: the best of
some scales is taken for each group (as in Nagel et al. 2021, section 3.1), and then the
scale that fits the codes best.
"""

import torch

from hookline_kernels.quantized_weight import (
    FLOAT_BITS,
    LEAST_GROUP,
    QuantizedWeight,
    pack,
)

GROUP = 128
"""Inputs of a group of 4-bit codes."""
_CLIPS = {4: (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 8 / 7), 8: (1.0,)}
"""Scales to try, relative to the one that clips nothing."""
_ROWS_BYTES = 1 << 20
"""Bytes of float32 that are processed at a time, within the L2 cache."""


def can_quantize(weight: torch.Tensor) -> bool:
    """Whether there are kernels for a weight [out, in]."""
    outputs, inputs = weight.shape
    return outputs % LEAST_GROUP == 0 and inputs % LEAST_GROUP == 0


def quantized(
    weight: torch.Tensor, bits: int, activation_bits: int = FLOAT_BITS
) -> QuantizedWeight:
    """Quantizes a weight [out, in] to 8 bits, or to 4 bits in groups of inputs.

    Groups have 128 inputs, or 64 or 32 where 128 does not divide them.
    """
    outputs, inputs = weight.shape
    group = inputs if bits == 8 else _group(inputs)
    rows = max(1, _ROWS_BYTES // (4 * inputs))
    codes = torch.empty(outputs, inputs, dtype=torch.int8)
    scales = torch.empty(outputs, inputs // group)
    for start in range(0, outputs, rows):
        numbers = weight[start : start + rows].float().view(-1, inputs // group, group)
        own, scale = _round(numbers, bits)
        codes[start : start + rows] = own.flatten(1)
        scales[start : start + rows] = scale
    return pack(codes, scales, bits=bits, activation_bits=activation_bits)


def _group(inputs: int) -> int:
    return next(size for size in (GROUP, 64, LEAST_GROUP) if inputs % size == 0)


def _round(numbers: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns codes and scales of float32 [rows, groups, group]."""
    lowest = -(1 << (bits - 1))
    at = numbers.abs().argmax(-1, keepdim=True)
    peak = numbers.gather(-1, at) / lowest
    peak = torch.where(peak == 0, torch.ones_like(peak), peak)
    best, error = _codes(numbers, peak, lowest), torch.full_like(peak, torch.inf)
    for clip in _CLIPS[bits]:
        codes = _codes(numbers, peak * clip, lowest)
        found = torch.addcmul(numbers, codes, peak * clip, value=-1)
        found = found.square_().sum(-1, keepdim=True)
        is_better = found < error
        error = torch.where(is_better, found, error)
        best = torch.where(is_better, codes, best)
    length = best.square().sum(-1).clamp_(min=1)
    return best.to(torch.int8), (best * numbers).sum(-1) / length


def _codes(numbers: torch.Tensor, scale: torch.Tensor, lowest: int) -> torch.Tensor:
    return (numbers / scale).round_().clamp_(lowest, -lowest - 1)
