"""Writes a step's keys and values into their slots of a layer's cache."""

import torch

from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.walking import rows_aligned


def write_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Copies T tokens' keys and values; negative slots are skipped.

    Args:
        key: [T, KV heads, key dim] of the cache's dtype.
        value: [T, KV heads, value dim], likewise.
        keys: [blocks, block size, KV heads, key dim], any strides; written.
        values: [blocks, block size, KV heads, value dim], likewise.
        slots: [T] integers, block × block size + offset; unique but for negative ones,
            which pad a graph's batch.
    """
    if not len(slots):
        return
    key, value = rows_aligned(key), rows_aligned(value)
    heads, key_width = key.shape[1:]
    _write_kernel[(len(slots),)](
        *(key, *key.stride()[:2], value, *value.stride()[:2]),
        *(keys, *keys.stride(), values, *values.stride(), slots),
        heads=heads,
        heads_pad=power_of_two(heads),
        key_width=key_width,
        key_pad=power_of_two(key_width),
        value_width=value.shape[2],
        value_pad=power_of_two(value.shape[2]),
        block_size=keys.shape[1],
        num_warps=4,
    )


@kernel
def place_of(  # noqa: PLR0917 - a kernel takes no keywords
    slot: tl.tensor,
    block_stride: tl.tensor,
    token_stride: tl.tensor,
    head_stride: tl.tensor,
    heads: tl.tensor,
    block_size: tl.constexpr,
) -> tl.tensor:
    """Returns the offsets of some heads of a slot in a cache."""
    token = slot // block_size * block_stride + slot % block_size * token_stride
    return token + heads * head_stride


@kernel
def _write_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    key: tl.tensor,
    from_key_token: tl.tensor,
    from_key_head: tl.tensor,
    value: tl.tensor,
    from_value_token: tl.tensor,
    from_value_head: tl.tensor,
    keys: tl.tensor,
    key_block: tl.tensor,
    key_token: tl.tensor,
    key_head: tl.tensor,
    key_dim: tl.tensor,
    values: tl.tensor,
    value_block: tl.tensor,
    value_token: tl.tensor,
    value_head: tl.tensor,
    value_dim: tl.tensor,
    slots: tl.tensor,
    heads: tl.constexpr,
    heads_pad: tl.constexpr,
    key_width: tl.constexpr,
    key_pad: tl.constexpr,
    value_width: tl.constexpr,
    value_pad: tl.constexpr,
    block_size: tl.constexpr,
) -> None:
    """Copies all heads of one token."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot < 0:
        return
    head = tl.arange(0, heads_pad)
    place = place_of(slot, key_block, key_token, key_head, head, block_size)
    dims = tl.arange(0, key_pad)
    mask = (head < heads)[:, None] & (dims < key_width)[None, :]
    source = token * from_key_token + head[:, None] * from_key_head + dims[None, :]
    tl.store(
        keys + place[:, None] + dims[None, :] * key_dim,
        tl.load(key + source, mask=mask),
        mask=mask,
    )
    place = place_of(slot, value_block, value_token, value_head, head, block_size)
    dims = tl.arange(0, value_pad)
    mask = (head < heads)[:, None] & (dims < value_width)[None, :]
    source = token * from_value_token + head[:, None] * from_value_head + dims[None, :]
    tl.store(
        values + place[:, None] + dims[None, :] * value_dim,
        tl.load(value + source, mask=mask),
        mask=mask,
    )
