"""float32 products with packed weights equal exact ones."""

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.float32_gemm import OUTPUTS, Float32Gemm, pack_float32
from hookline_kernels.failure import KernelError

ROWS = [0, *range(1, 20), 63, 64, 65]


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source)


def assert_equal_to_exact(
    rows: int,
    inputs: int,
    outputs: int,
    *,
    has_bias: bool = False,
    has_residual: bool = False,
) -> None:
    weight, values = random_values(outputs, inputs), random_values(rows, inputs)
    bias = random_values(outputs) if has_bias else None
    residual = random_values(rows, outputs) if has_residual else None
    exact = functional.linear(values.double(), weight.double())
    for each in (bias, residual):
        exact = exact if each is None else exact + each.double()

    found = Float32Gemm(pack_float32(weight), bias)(values, residual)

    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)
    assert residual is None or torch.equal(residual, random_values(rows, outputs))


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("rows", ROWS)
def test_products_are_right(rows: int, has_bias: bool, has_residual: bool) -> None:
    """For zero to many rows, with and without bias and residual."""
    assert_equal_to_exact(
        rows, 48, 3 * OUTPUTS, has_bias=has_bias, has_residual=has_residual
    )


@pytest.mark.parametrize("inputs", [1, 7, 250])
def test_any_number_of_inputs_is_right(inputs: int) -> None:
    """Also if a row is not a whole number of vectors."""
    assert_equal_to_exact(13, inputs, OUTPUTS)


def test_rows_that_no_cache_holds_are_right() -> None:
    """They are multiplied in parts."""
    assert_equal_to_exact(601, 1024, 2 * OUTPUTS, has_bias=True, has_residual=True)


def test_a_rows_result_does_not_depend_on_other_rows() -> None:
    """It has the same bits, so that greedy tokens do not depend on the batch."""
    product = Float32Gemm(pack_float32(random_values(4 * OUTPUTS, 96)), None)
    values = random_values(21, 96)

    together = product(values)

    for row in range(len(values)):
        assert torch.equal(product(values[row : row + 1]), together[row : row + 1])


def test_values_of_any_shape_and_place_are_taken() -> None:
    """Like in a linear layer."""
    weight = random_values(OUTPUTS, 24)
    values = random_values(24, 3, 5).permute(1, 2, 0)

    found = Float32Gemm(pack_float32(weight), None)(values)

    torch.testing.assert_close(found, functional.linear(values, weight))


def test_weights_may_lie_as_columns() -> None:
    """Transposed weights are packed as well."""
    weight, values = random_values(24, OUTPUTS).t(), random_values(3, 24)

    found = Float32Gemm(pack_float32(weight), None)(values)

    torch.testing.assert_close(found, functional.linear(values, weight))


@pytest.mark.parametrize(
    "weight",
    [torch.zeros(OUTPUTS + 1, 8), torch.zeros(OUTPUTS, 8, dtype=torch.float64)],
    ids=["outputs", "dtype"],
)
def test_unsupported_weights_are_refused(weight: torch.Tensor) -> None:
    """The caller uses torch instead."""
    with pytest.raises(KernelError, match="no panels"):
        pack_float32(weight)
