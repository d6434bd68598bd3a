"""The memory layout of a layer's cache.

The shape is always [blocks, block size, KV heads, dim]. In memory a block's KV heads
follow one another. A head's values are rows, [block size, dim]. Its keys are columns on
CPUs, [dim, block size], where a vector sums the scores of many tokens, and rows on
GPUs, whose neighbouring threads read neighbouring numbers.
"""

import numpy as np
import torch

from hookline_kernels.platform import CPU, Platform


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
    memory = _zeros((num_blocks, num_kv_heads, dim, block_size), dtype)
    return memory.permute(0, 3, 1, 2)


def new_values(  # noqa: PLR0917 - see `new_keys`
    num_blocks: int,
    block_size: int,
    num_kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    platform: Platform = CPU,
) -> torch.Tensor:
    """Returns zeros on the platform's device."""
    shape = (num_blocks, num_kv_heads, block_size, dim)
    if platform.is_gpu:
        memory = torch.zeros(shape, dtype=dtype, device=platform.device)
    else:
        memory = _zeros(shape, dtype)
    return memory.permute(0, 2, 1, 3)


def cached_keys(
    keys: torch.Tensor, blocks: torch.Tensor, start: int, end: int
) -> torch.Tensor:
    """Gathers tokens start … end - 1 of a request, and those before in that block.

    Args:
        keys: From `new_keys`.
        blocks: The request's blocks.
        start: First token.
        end: Index after the last token.

    Returns:
        [KV heads, tokens, dim].
    """
    found = _blocks(keys.permute(0, 2, 3, 1), blocks, start, end, keys.shape[1])
    rows = found.permute(1, 0, 3, 2).contiguous()
    return rows.flatten(1, 2)[:, : _width(start, end, keys)]


def cached_values(
    values: torch.Tensor, blocks: torch.Tensor, start: int, end: int
) -> torch.Tensor:
    """Returns cached values, as `cached_keys` does keys; from `new_values`."""
    found = _blocks(values.permute(0, 2, 1, 3), blocks, start, end, values.shape[1])
    return found.permute(1, 0, 2, 3).flatten(1, 2)[:, : _width(start, end, values)]


def _blocks(
    memory: torch.Tensor, blocks: torch.Tensor, start: int, end: int, block_size: int
) -> torch.Tensor:
    chosen = blocks[start // block_size : -(-end // block_size)]
    return memory.index_select(0, chosen)


def _width(start: int, end: int, side: torch.Tensor) -> int:
    return end - start // side.shape[1] * side.shape[1]


def _zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Allocates by numpy, which requests huge pages: blocks are read in any order."""
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, np.uint8)).view(dtype).view(shape)
