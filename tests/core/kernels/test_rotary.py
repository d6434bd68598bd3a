"""The compiled rotary embedding equals what models compute, bit by bit."""

import pytest
import torch

from hookline_kernels.cpu.rotary import Rotary, rotate_reference
from hookline_kernels.failure import KernelError

DTYPES = [torch.bfloat16, torch.float32]


def random_values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def angles(tokens: int, dim: int, dtype: torch.dtype) -> list[torch.Tensor]:
    turns = random_values((1, tokens, dim), torch.float32) * 9
    return [turns.cos().to(dtype), turns.sin().to(dtype)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 2, 9, 700])
@pytest.mark.parametrize(("heads", "key_heads", "dim"), [(4, 2, 16), (3, 3, 64)])
def test_heads_equal_the_reference(
    dtype: torch.dtype, tokens: int, heads: int, key_heads: int, dim: int
) -> None:
    """Queries and keys are views of one product, as they are in a model."""
    product = random_values((1, tokens, (heads + key_heads) * dim), dtype)
    query, key = (
        part.view(1, tokens, -1, dim).transpose(1, 2)
        for part in product.split((heads * dim, key_heads * dim), -1)
    )
    cosines, sines = angles(tokens, dim, dtype)
    rotary = Rotary(dtype)

    assert rotary.takes(query, key, cosines, sines)
    found = rotary(query, key, cosines, sines)

    for values, turned in zip((query, key), found, strict=True):
        assert torch.equal(turned, rotate_reference(values, cosines, sines))


def test_what_would_be_read_wrongly_is_not_taken() -> None:
    """Other dtypes, batches, widths and strides are for the model's own function."""
    rotary = Rotary(torch.float32)
    query, key = (random_values((1, heads, 5, 8), torch.float32) for heads in (4, 2))
    cosines, sines = angles(5, 8, torch.float32)

    assert rotary.takes(query, key, cosines, sines)
    assert not rotary.takes(query.bfloat16(), key, cosines, sines)
    assert not rotary.takes(query, key.transpose(2, 3), cosines, sines)
    assert not rotary.takes(query[..., ::2], key[..., ::2], cosines, sines)
    assert not rotary.takes(query.expand(2, 4, 5, 8), key, cosines, sines)
    assert not rotary.takes(query, key, *angles(4, 8, torch.float32))
    assert not rotary.takes(query, key, *angles(5, 4, torch.float32))
    assert not rotary.takes(query, key, cosines.bfloat16(), sines.bfloat16())
    assert not rotary.takes(query, key, cosines, sines[..., :4])


def test_a_dtype_without_a_kernel_is_refused() -> None:
    """The caller keeps what it has."""
    with pytest.raises(KernelError, match="float16"):
        Rotary(torch.float16)
