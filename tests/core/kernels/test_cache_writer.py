"""Keys and values of a step's tokens reach their slots, and nothing else changes."""

import pytest
import torch

from hookline_kernels import KernelError, new_keys, new_values
from hookline_kernels.cpu.pages import CacheWriter

DTYPES = [torch.bfloat16, torch.float32]
KV_HEADS = 3


def random_values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def as_models_hand_over(
    tokens: int, dim: int, dtype: torch.dtype, layout: str
) -> torch.Tensor:
    """[tokens, KV heads, dim], in the given memory layout."""
    if layout == "contiguous":
        return random_values(tokens, KV_HEADS, dim).to(dtype)
    if layout == "heads outermost":
        return random_values(KV_HEADS, tokens, dim).to(dtype).transpose(0, 1)
    if layout == "part of a product":
        wide = random_values(tokens, KV_HEADS * dim + 50).to(dtype)
        return wide[:, 11 : 11 + KV_HEADS * dim].view(tokens, KV_HEADS, dim)
    return random_values(tokens, dim, KV_HEADS).to(dtype).transpose(1, 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "layout", ["contiguous", "heads outermost", "part of a product", "dims outside"]
)
@pytest.mark.parametrize(
    ("key_dim", "value_dim", "block_size"), [(64, 64, 16), (24, 40, 4), (20, 20, 1)]
)
def test_tokens_reach_their_slots(
    key_dim: int, value_dim: int, block_size: int, dtype: torch.dtype, layout: str
) -> None:
    """In any order of slots; one token, a few, and enough for several threads."""
    writer = CacheWriter(
        num_kv_heads=KV_HEADS,
        key_dim=key_dim,
        value_dim=value_dim,
        block_size=block_size,
        dtype=dtype,
    )
    for tokens in (1, 17, 700):
        blocks = tokens // block_size + 3
        key = as_models_hand_over(tokens, key_dim, dtype, layout)
        value = as_models_hand_over(tokens, value_dim, dtype, layout)
        keys = new_keys(blocks, block_size, KV_HEADS, key_dim, dtype)
        values = new_values(blocks, block_size, KV_HEADS, value_dim, dtype)
        source = torch.Generator().manual_seed(tokens)
        slots = torch.randperm(blocks * block_size, generator=source)[:tokens]
        block, place = slots // block_size, slots % block_size

        writer(
            key,
            value,
            keys=keys.fill_(torch.nan),
            values=values.fill_(torch.nan),
            slots=slots,
        )

        for cache, side in ((keys, key), (values, value)):
            assert torch.equal(cache[block, place], side)
            cache[block, place] = torch.nan
            assert cache.isnan().all()


def test_a_dtype_without_a_kernel_is_refused() -> None:
    """The caller falls back."""
    with pytest.raises(KernelError, match="float16"):
        CacheWriter(
            num_kv_heads=1,
            key_dim=8,
            value_dim=8,
            block_size=4,
            dtype=torch.float16,
        )
