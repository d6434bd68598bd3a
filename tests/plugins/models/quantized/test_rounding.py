"""Rounding of weights to few bits has a bounded error."""

import pytest
import torch

from hookline_kernels.quantized_weight import dequantize
from hookline_quantized.rounding import can_quantize, quantized

WEIGHT = torch.randn(96, 256, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("bits", "most"), [(8, 0.008), (4, 0.102)])
def test_error_is_bounded(bits: int, most: float) -> None:
    """Relative to the norm of normally distributed weights."""
    error = dequantize(quantized(WEIGHT, bits)) - WEIGHT

    assert error.norm() <= most * WEIGHT.norm()


def test_clipping_beats_the_range_of_a_group() -> None:
    """The error of 4 bits is a tenth below that of scales that clip nothing."""
    error = (dequantize(quantized(WEIGHT, 4)) - WEIGHT).norm()

    groups = WEIGHT.view(-1, 128)
    scales = groups.abs().amax(1, keepdim=True) / 7
    plain = ((groups / scales).round() * scales - groups).norm()
    assert error <= 0.9 * plain


def test_zeros_stay_zeros() -> None:
    """A group without any number has a scale, too."""
    assert not dequantize(quantized(torch.zeros(32, 64), 4)).any()


def test_odd_shapes_are_not_quantized() -> None:
    """Kernels read panels of 32 outputs and groups of 32 inputs."""
    assert can_quantize(torch.empty(32, 64))
    assert not can_quantize(torch.empty(33, 64))
    assert not can_quantize(torch.empty(32, 72))
