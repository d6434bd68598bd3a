"""Products with vectors are right on each tier, and so is the layer made of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hookline_kernels import KernelError
from hookline_kernels.cpu.gated import GATES
from hookline_kernels.cpu.isa import EMULATION, VARIABLE, Isa, current_isa, host_isas
from hookline_kernels.cpu.panels import lay_panels, uses_tiles
from hookline_kernels.cpu.vector_feed_forward import VectorFeedForward
from hookline_kernels.cpu.vector_gemm import VectorGemm, pack_for_vectors
from hookline_kernels.cpu.vector_panels import HEIGHT, has_pairs
from hookline_kernels.layers import gated_reference
from hookline_kernels.modules.linears import FastLinear, is_worth_packing

ROWS = [0, 1, 2, 3, 5, HEIGHT, HEIGHT + 1, 29, 130]
SHAPES = [(32, 32), (96, 160), (160, 1056)]
"""Outputs and inputs."""
WAYS = [False, True] if has_pairs() else [False]
BELOW = [isa.value for isa in host_isas() if isa not in {Isa.AMX, current_isa()}]


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).bfloat16()


def assert_right(found: torch.Tensor, exact: torch.Tensor, error: float) -> None:
    assert (found.dtype, found.shape) == (torch.bfloat16, exact.shape)
    worst = (found.double() - exact).abs().amax(1)
    assert (worst <= error * exact.abs().amax(1)).all(), worst


@pytest.mark.parametrize("pairs", WAYS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_rounded_once(shape: tuple[int, int], pairs: bool) -> None:
    """For no rows to many, with and without bias and residual."""
    outputs, inputs = shape
    weight, bias = random_values(outputs, inputs), random_values(outputs)
    panels = lay_panels(weight)
    plain, biased = (VectorGemm(panels, each, pairs=pairs) for each in (None, bias))
    for rows in ROWS:
        values, residual = random_values(rows, inputs), random_values(rows, outputs)
        exact = values.double() @ weight.double().T

        assert_right(plain(values), exact, 0.005)
        whole = exact + bias.double() + residual.double()
        assert_right(biased(values, residual), whole, 0.005)
        assert torch.equal(values, random_values(rows, inputs))
        assert torch.equal(residual, random_values(rows, outputs))


@pytest.mark.parametrize("pairs", WAYS)
@pytest.mark.parametrize("rows", [3, 200])
def test_wide_inputs_are_multiplied_in_parts(rows: int, pairs: bool) -> None:
    """Rows of many inputs do not fit a thread's memory."""
    weight, values = random_values(96, 11_264), random_values(rows, 11_264)

    found = VectorGemm(lay_panels(weight), pairs=pairs)(values)

    assert_right(found, values.double() @ weight.double().T, 0.005)


def test_a_rows_result_does_not_depend_on_other_rows() -> None:
    """It has the same bits, so that greedy tokens do not depend on the batch."""
    product = VectorGemm(lay_panels(random_values(64, 4096)))
    values = random_values(61, 4096)

    together = product(values)

    for row in range(len(values)):
        assert torch.equal(product(values[row : row + 1]), together[row : row + 1])


def test_nan_stays_in_its_row() -> None:
    """Also beside rows that fill a block up."""
    product, values = (
        VectorGemm(lay_panels(random_values(64, 96))),
        random_values(7, 96),
    )
    expected = product(values)
    values[6, 3] = torch.nan

    found = product(values)

    assert found[6].isnan().all()
    assert torch.equal(found[:6], expected[:6])


def test_values_of_any_shape_and_place_are_taken() -> None:
    """Like in a linear layer."""
    product, wide = (
        VectorGemm(lay_panels(random_values(96, 64))),
        random_values(2, 5, 200),
    )

    found = product(wide[..., 7:71])

    assert found.shape == (2, 5, 96)
    assert torch.equal(found[1], product(wide[1, :, 7:71].clone()))


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same(threads: int) -> None:
    """It does not matter which thread takes which rows."""
    product, values = (
        VectorGemm(lay_panels(random_values(544, 96))),
        random_values(700, 96),
    )
    expected, before = product(values), torch.get_num_threads()

    torch.set_num_threads(threads)
    try:
        for _ in range(3):
            assert torch.equal(product(values), expected)
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(uses_tiles(), reason="the matrix unit computes these")
@pytest.mark.parametrize("activation", GATES)
def test_the_whole_layer_equals_the_reference(activation: str) -> None:
    """A gated MLP, with and without a residual."""
    hidden, width = 96, 544
    gate, up, down = random_values(3, width, hidden).float() / hidden**0.5
    weights = gate.bfloat16(), up.bfloat16(), down.view(hidden, width).bfloat16()
    layer = VectorFeedForward(*weights, activation)
    for rows in ROWS:
        values, residual = random_values(rows, hidden), random_values(rows, hidden)
        own, other, last = (each.double() for each in weights)
        sides = torch.cat((values.double() @ own.T, values.double() @ other.T), 1)
        exact = gated_reference(sides, activation) @ last.T

        assert_right(layer(values), exact, 0.012)
        assert_right(layer(values, residual), exact + residual.double(), 0.012)


@pytest.mark.skipif(uses_tiles(), reason="the matrix unit computes these")
def test_layers_take_these_products() -> None:
    """Where there is no matrix unit, whatever oneDNN can pack."""
    weight, values = random_values(64, 96), random_values(300, 96)

    assert is_worth_packing(weight)
    layer = FastLinear(weight, None)

    assert layer.is_packed
    assert torch.equal(layer(values), VectorGemm(lay_panels(weight))(values))


@pytest.mark.parametrize("shape", [(48, 64), (64, 48), (33, 64), (64, 7)], ids=str)
def test_odd_weights_are_left_to_torch(shape: tuple[int, int]) -> None:
    """They fill no whole panels."""
    with pytest.raises(KernelError, match="no panels"):
        pack_for_vectors(random_values(*shape))

    weight, values = random_values(*shape), random_values(5, shape[1])
    exact = values.double() @ weight.double().T
    assert_right(FastLinear(weight, None)(values), exact, 0.005)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", BELOW)
def test_lower_tiers_pass_the_same_tests(isa: str) -> None:
    """In a separate process, as a process has one tier."""
    own, layer = Path(__file__), Path(__file__).with_name("test_float32_gemm.py")
    options = [
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-k",
        "not lower_tiers",
    ]
    environment = {**os.environ, VARIABLE: isa}
    environment[EMULATION] = ""  # `tests/conftest.py` sets it otherwise

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(own), str(layer)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
