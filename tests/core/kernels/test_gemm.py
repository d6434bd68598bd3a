"""Products of many rows on tiles are right for each layout of weights."""

import pytest
import torch

from hookline_kernels.cpu.gemm import Gemm
from hookline_kernels.cpu.linear import can_pack, pack
from hookline_kernels.cpu.panels import lay_panels
from hookline_kernels.cpu.skinny_gemm import skinny_gemm_for

ROWS = [32, 33, 63, 64, 200, 545]
SHAPES = [(32, 32), (64, 96), (96, 544), (1056, 64), (128, 192)]
"""Inputs and outputs: a step and many, panels that are no multiple of a task's."""


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).bfloat16()


def check(product: Gemm, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Checks each row, with and without a residual; inputs stay unchanged."""
    for rows in ROWS:
        values = random_values(rows, weight.shape[1])
        expected = values.double() @ weight.double().T
        expected += 0 if bias is None else bias.double()
        residual = random_values(*expected.shape)
        for extra in (None, residual):
            found = product(values, extra)

            whole = expected if extra is None else expected + extra.double()
            assert (found.dtype, found.shape) == (torch.bfloat16, whole.shape)
            worst = (found.double() - whole).abs().amax(1)
            assert (worst <= 0.006 * whole.abs().amax(1)).all(), (rows, worst)
        assert torch.equal(values, random_values(rows, weight.shape[1]))
        assert torch.equal(residual, random_values(*expected.shape))


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weights_in_panels(shape: tuple[int, int], has_bias: bool) -> None:
    """Panels of 32 outputs."""
    inputs, outputs = shape
    weight = random_values(outputs, inputs)
    bias = random_values(outputs) if has_bias else None

    check(Gemm(lay_panels(weight), bias), weight, bias)


@pytest.mark.parametrize("shape", [(64, 96), (96, 544), (128, 192)], ids=str)
def test_weights_as_onednn_packs_them(shape: tuple[int, int]) -> None:
    """Blocks of 32 or 64 outputs, found by a trial."""
    inputs, outputs = shape
    weight, bias = random_values(outputs, inputs), random_values(outputs)
    if not can_pack(weight):
        pytest.skip("oneDNN packs no bfloat16 here")
    packed = pack(weight)
    few = skinny_gemm_for(packed, bias)
    if few is None:
        pytest.skip("this oneDNN packs weights otherwise")

    check(Gemm(packed, bias, width=few.width), weight, bias)


def test_weights_in_blocks_of_64() -> None:
    """Two panels lie side by side."""
    weight = random_values(192, 96)
    pairs = weight.view(3, 64, 48, 2).transpose(1, 2).contiguous().view(192, 96)

    check(Gemm(pairs, width=64), weight, None)


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same(threads: int) -> None:
    """It does not matter which thread finishes a block's sums."""
    weight, values = random_values(544, 96), random_values(700, 96)
    product, before = Gemm(lay_panels(weight)), torch.get_num_threads()
    expected = product(values)

    torch.set_num_threads(threads)
    try:
        for _ in range(3):
            assert torch.equal(product(values), expected)
    finally:
        torch.set_num_threads(before)
