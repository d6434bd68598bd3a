"""Products with packed weights equal plain ones, and are rounded less often."""

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.linear import can_pack, pack, packed_linear, plain_linear

OUT, IN = 96, 64

PACKS = can_pack(torch.zeros(16, 16, dtype=torch.bfloat16))
DTYPES = [torch.float32, torch.bfloat16] if PACKS else [torch.float32]
"""What oneDNN packs here; the engine itself leaves float32 plain."""


def random_values(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).to(dtype)


def exact_product(
    values: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    """The product in float64, of the same numbers."""
    exact = functional.linear(values.double(), weight.double())
    for each in (bias, residual):
        exact = exact if each is None else exact + each.double()
    return exact


def assert_rounded(found: torch.Tensor, exact: torch.Tensor) -> None:
    """Within one unit in the last place, and a little for the sum."""
    rtol = {torch.bfloat16: 2**-8, torch.float32: 2**-20}[found.dtype]
    torch.testing.assert_close(found.double(), exact, rtol=rtol, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 7, 64, 300])
def test_packed_products_equal_plain_ones(
    tokens: int, has_bias: bool, has_residual: bool, dtype: torch.dtype
) -> None:
    """Bias and residual are added before the only rounding; no input is changed."""
    values = random_values(1, tokens, IN, dtype=dtype)
    weight = random_values(OUT, IN, dtype=dtype)
    given = random_values(1, tokens, OUT, dtype=dtype)
    bias = random_values(OUT, dtype=dtype) if has_bias else None
    residual = given.clone() if has_residual else None
    exact = exact_product(values, weight, bias, residual)

    found = packed_linear(values, pack(weight), bias, residual=residual)

    assert (found.dtype, found.shape) == (dtype, (1, tokens, OUT))
    assert_rounded(found, exact)
    assert torch.equal(values, random_values(1, tokens, IN, dtype=dtype))
    assert residual is None or torch.equal(residual, given)


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_plain_products_take_a_bias_and_a_summand(
    tokens: int, has_bias: bool, has_residual: bool
) -> None:
    """Like packed ones; the residual stays unchanged."""
    values = random_values(tokens, IN, dtype=torch.float32)
    weight = random_values(OUT, IN, dtype=torch.float32)
    bias = random_values(OUT, dtype=torch.float32) if has_bias else None
    given = random_values(tokens, OUT, dtype=torch.float32)
    residual = given.clone() if has_residual else None
    exact = exact_product(values, weight, bias, residual)

    found = plain_linear(values, weight, bias, residual=residual)

    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=2e-5)
    assert residual is None or torch.equal(residual, given)


def test_float32_is_not_packed() -> None:
    """It would be slower for one token."""
    assert not can_pack(torch.zeros(16, 16))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_packed_weights_are_not_packed_again(dtype: torch.dtype) -> None:
    """The layout is oneDNN's own."""
    assert not can_pack(pack(random_values(OUT, IN, dtype=dtype)))
