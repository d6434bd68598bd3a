"""Products with packed weights equal plain ones, and are rounded less often."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.linear import ACTIVATIONS, can_pack, pack, packed_linear

OUT, IN = 96, 64
ACTIVATION_OF: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda values: functional.gelu(values, approximate="tanh"),
    "relu": functional.relu,
}

needs_bfloat16 = pytest.mark.skipif(
    not can_pack(torch.zeros(16, 16, dtype=torch.bfloat16)),
    reason="this processor has no products of bfloat16",
)


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).bfloat16()


def assert_rounded(found: torch.Tensor, exact: torch.Tensor) -> None:
    """Half of a last place from the exact result, and a little for the sum."""
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), exact, rtol=2**-7, atol=2e-2)


@needs_bfloat16
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 7, 64, 300])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_products_equal_plain_ones(
    tokens: int, activation: str | None, has_bias: bool
) -> None:
    """Whatever the activation, and with or without a bias."""
    values, weight = random_values(1, tokens, IN), random_values(OUT, IN)
    bias = random_values(OUT) if has_bias else None
    exact = functional.linear(
        values.float(), weight.float(), None if bias is None else bias.float()
    )

    found = packed_linear(values, pack(weight), bias, activation=activation)

    assert_rounded(found, ACTIVATION_OF[activation](exact) if activation else exact)


@needs_bfloat16
def test_a_factor_is_multiplied_before_rounding() -> None:
    """One rounding, not two."""
    values, weight = random_values(1, 9, IN), random_values(OUT, IN)
    factor = random_values(1, 9, OUT)
    exact = functional.linear(values.float(), weight.float()) * factor.float()

    found = packed_linear(values, pack(weight), None, factor=factor)

    assert_rounded(found, exact)


def test_float32_is_not_packed() -> None:
    """It would be slower for one token."""
    assert not can_pack(torch.zeros(16, 16))


@needs_bfloat16
def test_what_is_packed_is_not_packed_again() -> None:
    """Its layout is oneDNN's own."""
    assert not can_pack(pack(random_values(OUT, IN)))
