"""The compiled RMSNorm equals what models compute."""

import pytest
import torch

from hookline_kernels.cpu.norm import RmsNorm
from hookline_kernels.failure import KernelError
from hookline_kernels.layers import rms_norm_reference

DTYPES = [torch.bfloat16, torch.float32]
TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 2**-6}
"""Share of the result: the order of a sum; bfloat16 is rounded twice, so that a sum on
the other side of a tie makes two last places."""
EPSILON = 1e-5


def random_values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(5)
    return torch.randn(shape).mul_(3).to(dtype)


def assert_like_the_reference(values: torch.Tensor, *, unit_offset: bool) -> None:
    weight = random_values((values.shape[-1],), values.dtype)
    norm = RmsNorm(weight, EPSILON, unit_offset=unit_offset)
    expected = rms_norm_reference(values, weight, EPSILON, unit_offset=unit_offset)

    found = norm(values)

    assert found.is_contiguous()
    assert found.dtype == values.dtype
    torch.testing.assert_close(
        found, expected, rtol=TOLERANCES[values.dtype], atol=1e-6
    )


@pytest.mark.parametrize("unit_offset", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 1, 8), (1, 17, 64), (3, 5, 24), (33, 100), (1, 600, 768)], ids=str
)
def test_rows_equal_the_reference(
    shape: tuple[int, ...], dtype: torch.dtype, unit_offset: bool
) -> None:
    """For any shape, on one thread and on several."""
    assert_like_the_reference(random_values(shape, dtype), unit_offset=unit_offset)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_heads_of_a_joined_product_are_rows(dtype: torch.dtype) -> None:
    """Strided views, such as queries within a QKV product."""
    product = random_values((1, 7, 100), dtype)
    heads = product[..., 20:84].view(1, 7, 4, 16)

    for values in (heads, heads.transpose(1, 2), product.transpose(1, 2)):
        assert_like_the_reference(values, unit_offset=False)


def test_another_dtype_than_the_weights_gives_the_reference() -> None:
    """float32 numbers are not read as bfloat16."""
    weight = random_values((16,), torch.bfloat16)
    values = random_values((1, 3, 16), torch.float32)

    found = RmsNorm(weight, EPSILON, unit_offset=False)(values)

    expected = rms_norm_reference(values, weight, EPSILON, unit_offset=False)
    assert torch.equal(found, expected)


def test_a_dtype_without_a_kernel_is_refused() -> None:
    """The caller falls back."""
    with pytest.raises(KernelError, match="float16"):
        RmsNorm(torch.ones(8, dtype=torch.float16), EPSILON, unit_offset=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_stay_as_they_are(dtype: torch.dtype) -> None:
    """They are the residual that is added later."""
    values = random_values((1, 600, 128), dtype)

    RmsNorm(torch.ones(128, dtype=dtype), EPSILON, unit_offset=False)(values)

    assert torch.equal(values, random_values((1, 600, 128), dtype))
