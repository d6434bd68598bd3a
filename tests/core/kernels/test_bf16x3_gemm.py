"""Products of numbers in three pieces are as precise as float32."""

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.bf16x3_gemm import Bf16x3Gemm, pack_bf16x3
from hookline_kernels.cpu.float32_gemm import Float32Gemm, pack_float32
from hookline_kernels.cpu.panels import OUTPUTS
from hookline_kernels.failure import KernelError
from hookline_kernels.modules.linears import FastLinear

ROWS = [0, 1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 63, 64, 65, 130]


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source)


def errors(
    rows: int,
    inputs: int,
    outputs: int,
    *,
    has_bias: bool = False,
    has_residual: bool = False,
) -> tuple[float, float]:
    """Largest error, and that of float32 vectors."""
    weight, values = random_values(outputs, inputs), random_values(rows, inputs)
    bias = random_values(outputs) if has_bias else None
    residual = random_values(rows, outputs) if has_residual else None
    exact = functional.linear(values.double(), weight.double())
    for each in (bias, residual):
        exact = exact if each is None else exact + each.double()

    found, other = (
        product(values, residual)
        for product in (
            Bf16x3Gemm(pack_bf16x3(weight), bias),
            Float32Gemm(pack_float32(weight), bias),
        )
    )

    assert found.dtype == torch.float32
    assert found.shape == exact.shape
    assert residual is None or torch.equal(residual, random_values(rows, outputs))
    if not rows:
        return 0.0, 0.0
    own, others = ((each.double() - exact).abs().max() for each in (found, other))
    return float(own), float(others)


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("rows", ROWS)
def test_products_are_as_right_as_in_float32(
    rows: int, has_bias: bool, has_residual: bool
) -> None:
    """For zero to many rows, with and without bias and residual."""
    own, others = errors(
        rows, 64, 3 * OUTPUTS, has_bias=has_bias, has_residual=has_residual
    )

    assert own <= 1.5 * others


@pytest.mark.parametrize(("inputs", "rows"), [(32, 40), (96, 500), (1344, 70)])
def test_so_are_those_of_more_rows_than_are_split_at_once(
    inputs: int, rows: int, threads: int
) -> None:
    """With any number of threads."""
    del threads
    own, others = errors(rows, inputs, 7 * OUTPUTS, has_bias=True, has_residual=True)

    assert own <= 1.5 * others


def test_every_piece_counts() -> None:
    """The test would see a missing piece or product."""
    weight, values = random_values(OUTPUTS, 32), random_values(32, 32)
    weight[:, 1:] = values[:, 1:] = 0  # one product for each sum
    exact = functional.linear(values.double(), weight.double())

    found = Bf16x3Gemm(pack_bf16x3(weight), None)(values)

    assert ((found.double() - exact).abs() <= exact.abs() * 2.0**-22).all()


def test_a_rows_result_does_not_depend_on_other_rows() -> None:
    """It has the same bits, so that greedy tokens do not depend on the batch."""
    product = Bf16x3Gemm(pack_bf16x3(random_values(4 * OUTPUTS, 96)), None)
    values = random_values(70, 96)

    together = product(values)

    for row in range(len(values)):
        assert torch.equal(product(values[row : row + 1]), together[row : row + 1])


def test_values_of_any_shape_and_place_are_taken() -> None:
    """Like in a linear layer."""
    weight = random_values(OUTPUTS, 32)
    values = random_values(32, 3, 15).permute(1, 2, 0)

    found = Bf16x3Gemm(pack_bf16x3(weight), None)(values)

    torch.testing.assert_close(found, functional.linear(values, weight))


def test_small_numbers_and_large_ones_are_right() -> None:
    """Pieces have the range of float32."""
    scales = torch.logspace(-14, 14, 40)[:, None]
    weight, values = random_values(OUTPUTS, 64), random_values(40, 64) * scales
    exact = functional.linear(values.double(), weight.double())

    found = Bf16x3Gemm(pack_bf16x3(weight * 1e10), None)(values) / 1e10

    torch.testing.assert_close(
        found.double() / scales, exact / scales, rtol=1e-5, atol=2e-5
    )


def test_a_linear_layer_takes_them_for_many_rows() -> None:
    """Few rows use vectors, which read less."""
    weight, bias = random_values(2 * OUTPUTS, 64), random_values(2 * OUTPUTS)
    layer = FastLinear(weight, bias)
    few, many = (
        Float32Gemm(pack_float32(weight), bias),
        Bf16x3Gemm(pack_bf16x3(weight), bias),
    )

    for rows in (1, 16, 17, 100):
        values = random_values(rows, 64)
        expected = few(values) if rows <= 16 else many(values)
        assert torch.equal(layer(values), expected)
    assert torch.equal(layer(values[None]), many(values[None]))


@pytest.mark.parametrize(
    "weight",
    [
        torch.zeros(OUTPUTS + 16, 32),
        torch.zeros(OUTPUTS, 48),
        torch.zeros(OUTPUTS, 2048),
        torch.zeros(1 << 15, 64),
        torch.zeros(OUTPUTS, 32, dtype=torch.float64),
    ],
    ids=["outputs", "inputs", "many inputs", "large", "dtype"],
)
def test_unsupported_products_are_refused(weight: torch.Tensor) -> None:
    """The caller uses vectors or torch instead."""
    with pytest.raises(KernelError, match=r"does not fit|no matrix unit|too large"):
        pack_bf16x3(weight)
