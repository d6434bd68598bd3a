"""The memory layout of a layer's cache.

The shape is always [blocks, block size, KV heads, dim]. In memory a block's KV heads
follow one another, a page each. A head's values are rows, [block size, dim]. Its keys
are columns on CPUs, [dim, block size], where a vector sums the scores of many tokens,
and rows on GPUs, whose neighbouring threads read neighbouring numbers.

A page of int8 numbers ends with the scales of its tokens, [block size] bfloat16; the
tensor's strides step over them. So a block is one run of bytes whatever its dtype.
"""

import numpy as np
import torch

from hookline_kernels.cache_numbers import EIGHT_BITS, SCALE, SCALED, dequantized
from hookline_kernels.platform import CPU, Platform


def page_bytes(block_size: int, dim: int, dtype: torch.dtype) -> int:
    """Returns the size of a head's keys or values in a block, with their scales."""
    size = block_size * dim * dtype.itemsize
    if dtype != SCALED:
        return size
    return size + size % SCALE.itemsize + block_size * SCALE.itemsize


def new_keys(  # noqa: PLR0917 - five numbers, always in this order
    num_blocks: int,
    block_size: int,
    num_kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    platform: Platform = CPU,
) -> torch.Tensor:
    """Returns zeros on the platform's device."""
    if platform.is_gpu:
        return new_values(num_blocks, block_size, num_kv_heads, dim, dtype, platform)
    shape = (num_blocks, block_size, num_kv_heads, dim)
    return _pages(shape, dtype, by_token=1, by_number=block_size)


def new_values(  # noqa: PLR0917 - see `new_keys`
    num_blocks: int,
    block_size: int,
    num_kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    platform: Platform = CPU,
) -> torch.Tensor:
    """Returns zeros on the platform's device."""
    if platform.is_gpu:
        shape = (num_blocks, num_kv_heads, block_size, dim)
        memory = torch.zeros(shape, dtype=dtype, device=platform.device)
        return memory.permute(0, 2, 1, 3)
    shape = (num_blocks, block_size, num_kv_heads, dim)
    return _pages(shape, dtype, by_token=dim, by_number=1)


def scales_of(side: torch.Tensor) -> torch.Tensor | None:
    """Returns the scales [blocks, block size, KV heads] behind the pages of a cache.

    None if its numbers have no scales. It shares the cache's memory.
    """
    if side.dtype != SCALED:
        return None
    blocks, size, heads, _ = side.shape
    width, page = size * SCALE.itemsize, side.stride(2)
    behind = side.as_strided(
        (blocks, heads, width),
        (side.stride(0), page, 1),
        side.storage_offset() + page - width,
    )
    return behind.view(SCALE).transpose(1, 2)


def cached_tokens(
    side: torch.Tensor,
    blocks: torch.Tensor,
    start: int,
    end: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Gathers tokens start … end - 1 of a request, and those before in that block.

    Args:
        side: From `new_keys` or `new_values`.
        blocks: The request's blocks.
        start: First token.
        end: Index after the last token.
        dtype: Numbers of 8 bits become this floating-point dtype.

    Returns:
        [KV heads, tokens, dim], each head contiguous.
    """
    size = side.shape[1]
    chosen = blocks[start // size : -(-end // size)]
    found = gathered(side, chosen, dtype).permute(2, 0, 1, 3).contiguous()
    return found.flatten(1, 2)[:, : end - start // size * size]


def gathered(
    side: torch.Tensor, blocks: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Returns blocks of a cache, [n, block size, KV heads, dim].

    Numbers of 8 bits become `dtype`; others stay.
    """
    inner = (2, 3, 1) if side.stride(1) == 1 else (2, 1, 3)  # as in memory: faster
    memory = side.permute(0, *inner).index_select(0, blocks)
    found = memory.permute(0, *(1 + inner.index(axis) for axis in (1, 2, 3)))
    if side.dtype not in EIGHT_BITS:
        return found
    scales = scales_of(side)
    return dequantized(
        found, None if scales is None else scales.index_select(0, blocks), dtype
    )


def _pages(
    shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    *,
    by_token: int,
    by_number: int,
) -> torch.Tensor:
    """Allocates by numpy, which requests huge pages: blocks are read in any order.

    The strides are those within a page.
    """
    blocks, block_size, heads, dim = shape
    size = page_bytes(block_size, dim, dtype)
    memory = torch.from_numpy(np.zeros(blocks * heads * size, np.uint8)).view(dtype)
    page = size // dtype.itemsize
    return memory.as_strided(shape, (heads * page, by_token, page, by_number))
