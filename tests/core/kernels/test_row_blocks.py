"""Norms write rows in blocks, and products of blocks equal products of rows."""

import pytest
import torch

from hookline_kernels.cpu.feed_forward import FeedForward
from hookline_kernels.cpu.gemm import Gemm
from hookline_kernels.cpu.norm import RmsNorm
from hookline_kernels.cpu.panels import lay_panels, steps_at_once

ROWS = [32, 33, 63, 64, 200, 545]
INPUTS = [32, 96, 832, 864, 1056]
"""Steps that all stay, some that pass by, and products in parts."""


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).bfloat16()


def blocks_of(values: torch.Tensor) -> torch.Tensor:
    """The layout of `RmsNorm.in_blocks`."""
    rows, width = values.shape
    starts = [*range(0, rows - 32, 32), rows - 32]
    parts = [values[at : at + 32].view(32, width // 32, 32) for at in starts]
    return torch.stack([part.transpose(0, 1) for part in parts]).contiguous()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("unit_offset", [False, True])
def test_norms_lay_blocks(rows: int, unit_offset: bool) -> None:
    """Blocks hold the same numbers as rows."""
    norm = RmsNorm(random_values(96), 1e-5, unit_offset=unit_offset)
    values = random_values(rows, 96)

    assert norm.lays_blocks
    assert torch.equal(norm.in_blocks(values), blocks_of(norm(values)))


@pytest.mark.parametrize(
    "weight", [random_values(48), random_values(64).float()], ids=["width", "dtype"]
)
def test_other_norms_return_rows(weight: torch.Tensor) -> None:
    """Their rows are used instead."""
    assert not RmsNorm(weight, 1e-5, unit_offset=False).lays_blocks


@pytest.mark.parametrize("inputs", INPUTS)
def test_products_of_blocks(inputs: int) -> None:
    """As precise as products of rows; parts round their sums differently."""
    weight, bias = random_values(96, inputs), random_values(96)
    product = Gemm(lay_panels(weight), bias, in_blocks=True)
    of_rows = Gemm(lay_panels(weight), bias)
    for rows in ROWS:
        values, residual = random_values(rows, inputs), random_values(rows, 96)
        for extra in (None, residual):
            expected = values.double() @ weight.double().T + bias.double()
            expected += 0 if extra is None else extra.double()

            found = product.of_blocks(blocks_of(values), rows, extra)

            worst = (found.double() - expected).abs().amax(1)
            assert (worst <= 0.006 * expected.abs().amax(1)).all(), (rows, worst)
            if steps_at_once(inputs // 32) == inputs // 32:
                assert torch.equal(found, of_rows(values, extra))


def test_products_of_blocks_with_weights_in_blocks_of_64() -> None:
    """Panels lie side by side, as oneDNN may lay them."""
    weight, values = random_values(192, 864), random_values(77, 864)
    pairs = weight.view(3, 64, 432, 2).transpose(1, 2).contiguous().view(192, 864)
    product = Gemm(pairs, width=64, in_blocks=True)
    expected = values.double() @ weight.double().T

    found = product.of_blocks(blocks_of(values), 77)

    assert (found.double() - expected).abs().max() <= 0.006 * expected.abs().max()


@pytest.mark.parametrize("rows", [33, 64, 77, 200])
def test_feed_forward_layers_of_blocks(rows: int) -> None:
    """Equal to the last bit, where the first product is not cut into parts."""
    gate, up = random_values(2, 544, 96) / 8
    layer = FeedForward(gate, up, random_values(96, 544) / 8, "silu")
    values, residual = random_values(rows, 96), random_values(rows, 96)

    for extra in (None, residual):
        found = layer.of_blocks(blocks_of(values), rows, extra)

        assert torch.equal(found, layer(values, extra))


@pytest.mark.parametrize(
    ("steps", "at_once"), [(1, 1), (24, 24), (26, 26), (27, 14), (64, 16), (100, 20)]
)
def test_parts_are_alike(steps: int, at_once: int) -> None:
    """None is larger than the L1 cache."""
    assert steps_at_once(steps) == at_once
