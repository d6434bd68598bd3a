"""The compiled gate equals its torch reference, also where exponentials overflow."""

import math

import pytest
import torch

from hookline_kernels.cpu.gated import GATES, Gate
from hookline_kernels.failure import KernelError
from hookline_kernels.layers import gated_reference

DTYPES = [torch.bfloat16, torch.float32]
TOLERANCES = {torch.bfloat16: 2**-8, torch.float32: 2e-6}
"""Share of the result that rounding it once may cost."""


def random_values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def assert_like_the_reference(values: torch.Tensor, activation: str) -> None:
    """Compares with the reference in float64."""
    width = values.shape[-1] // 2
    exact = gated_reference(values.double(), activation)

    found = Gate(width, values.dtype, activation)(values)

    assert found.dtype == values.dtype
    torch.testing.assert_close(
        found.double(), exact, rtol=TOLERANCES[values.dtype], atol=1e-6
    )


@pytest.mark.parametrize("activation", GATES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [1, 33, 100, 96])
def test_rows_equal_the_reference(
    width: int, dtype: torch.dtype, activation: str
) -> None:
    """Also widths that no vector divides; one row, a few, and many."""
    for rows in (1, 5, 700):
        values = (3 * random_values(rows, 2 * width)).to(dtype)
        assert_like_the_reference(values, activation)


@pytest.mark.parametrize("activation", GATES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [33, 96])
def test_gates_and_ups_may_alternate(
    width: int, dtype: torch.dtype, activation: str
) -> None:
    """Up to 16 of each, whatever the width of a vector."""
    lanes = math.gcd(width, 16)
    sides = (3 * random_values(2, 7, width)).to(dtype)
    halves = torch.cat((sides[0], sides[1]), 1)
    alternating = sides.view(2, 7, -1, lanes).permute(1, 2, 0, 3).reshape(7, -1)

    found = Gate(width, dtype, activation, alternates=True)(alternating)

    assert torch.equal(found, Gate(width, dtype, activation)(halves))


@pytest.mark.parametrize("activation", GATES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_extreme_numbers_stay_numbers(dtype: torch.dtype, activation: str) -> None:
    """No exponential overflows: a gate is closed or open."""
    gates = torch.tensor([1e4, -1e4, 1e20, -1e20, 88.0, -88.0, 9.5, -9.5, 0.0, -0.0])
    ups = torch.full_like(gates, 3.0)
    values = torch.cat((gates, ups)).to(dtype)[None]

    assert_like_the_reference(values, activation)


@pytest.mark.parametrize("activation", GATES)
def test_nan_is_kept(activation: str) -> None:
    """A broken model is not hidden."""
    values = random_values(1, 32)
    values[0, 3] = torch.nan

    found = Gate(16, torch.float32, activation)(values)

    assert found[0].isnan().nonzero().tolist() == [[3]]


def test_strided_rows_and_more_axes_are_taken() -> None:
    """The input stays unchanged."""
    wide = random_values(2, 5, 70)
    values = wide[..., 3:67]

    found = Gate(32, torch.float32, "silu")(values)

    torch.testing.assert_close(found, gated_reference(values, "silu"))
    assert torch.equal(wide, random_values(2, 5, 70))


def test_a_dtype_without_a_kernel_is_refused() -> None:
    """The caller falls back."""
    with pytest.raises(KernelError, match="float16"):
        Gate(16, torch.float16, "silu")
