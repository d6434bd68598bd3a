"""Attention over a paged KV cache, in torch: right everywhere, and batched for decode.

The plain reference of the compiled kernels, and what serves where there are none. A
layer's cache is two tensors, K and V, of shape [blocks, block size, KV heads, head dim]
each, anyhow in memory. Queries come as [T, heads, head dim] of a flattened batch; query
heads share KV heads in groups (grouped-query attention, Ainslie et al. 2023).
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from hookline_kernels.metadata import TREE_BITS, PagedMetadata, TreeMask


def write_cache(
    cache: torch.Tensor, values: torch.Tensor, metadata: PagedMetadata
) -> None:
    """Writes [T, KV heads, head dim] into the slots of one half of a layer's cache."""
    block_size = cache.shape[1]
    cache[metadata.slots // block_size, metadata.slots % block_size] = values


def paged_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    metadata: PagedMetadata,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Causal attention of each token over its own sequence, whose K and V are written.

    Args:
        query: [T, heads, head dim].
        key_cache: [blocks, block size, KV heads, head dim].
        value_cache: The same shape; the head dim may be another.
        metadata: Of the batch.
        scale: Multiplies the scores.
        window: A token sees so many tokens, itself included; None sees all.
        softcap: Scores become softcap · tanh(score ÷ softcap); None leaves them.

    Returns:
        [T, heads, head dim of the values].
    """
    output = query.new_empty(*query.shape[:2], value_cache.shape[-1])
    single = metadata.num_single
    if single:
        output[:single] = _attend_single(
            query[:single],
            key_cache,
            value_cache,
            metadata,
            scale=scale,
            window=window,
            softcap=softcap,
        )
    start = single
    for index in range(single, len(metadata.query_lens)):
        end = start + metadata.query_lens[index]
        output[start:end] = _attend_one(
            query[start:end],
            _gather(key_cache, metadata.block_tables[index], metadata.seq_lens[index]),
            _gather(
                value_cache, metadata.block_tables[index], metadata.seq_lens[index]
            ),
            scale=scale,
            window=window,
            softcap=softcap,
        )
        start = end
    return output


def reference_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    metadata: PagedMetadata,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Writes a step's keys and values into the cache, all of them, and attends."""
    write_cache(keys, key, metadata)
    write_cache(values, value, metadata)
    return paged_attention(
        query, keys, values, metadata, scale=scale, window=window, softcap=softcap
    )


def attend_written(
    query: torch.Tensor,
    _key: torch.Tensor,
    _value: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    metadata: PagedMetadata,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """The same for keys and values that are in the cache already."""
    return paged_attention(
        query, keys, values, metadata, scale=scale, window=window, softcap=softcap
    )


def _gather(cache: torch.Tensor, blocks: torch.Tensor, length: int) -> torch.Tensor:
    """One sequence's part of the cache: [length, KV heads, head dim]."""
    count = -(-length // cache.shape[1])
    return cache.index_select(0, blocks[:count]).flatten(0, 1)[:length]


def _gather_many(cache: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """Many sequences' parts: [b, KV heads, blocks · block size, head dim]."""
    rows = cache.index_select(0, tables.flatten())  # twice as fast as cache[tables]
    return rows.view(len(tables), -1, *cache.shape[2:]).transpose(1, 2)


def _attend_one(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """The last tokens of one sequence, [n, heads, head dim], over all [s, …] of it."""
    count, length = len(query), len(key)
    if window is None and count == length:
        mask = None
    else:
        positions = torch.arange(length - count, length, device=query.device)[:, None]
        keys = torch.arange(length, device=query.device)[None, :]
        mask = keys <= positions
        if window is not None:
            mask &= keys > positions - window
    return _scores_and_sum(
        query.transpose(0, 1)[None],
        key.transpose(0, 1)[None],
        value.transpose(0, 1)[None],
        mask,
        scale=scale,
        softcap=softcap,
    )[0].transpose(0, 1)


def _attend_single(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    metadata: PagedMetadata,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """One new token each of many sequences, [b, heads, head dim], in one batch."""
    count = len(query)
    block_size = key_cache.shape[1]
    longest = max(metadata.seq_lens[:count])
    tables = metadata.block_tables[:count, : -(-longest // block_size)]
    lengths = metadata.seq_lens_tensor[:count, None]
    keys = torch.arange(tables.shape[1] * block_size, device=query.device)[None, :]
    mask = keys < lengths
    if (trees := metadata.trees) is not None:
        mask &= ~_unseen(trees, lengths, keys)
        lengths = lengths - trees.num_unseen[:, None]  # as far as positions count
    if window is not None:
        mask &= keys >= lengths - window
    return _scores_and_sum(
        query[:, :, None],
        _gather_many(key_cache, tables),
        _gather_many(value_cache, tables),
        mask[:, None, None, :],
        scale=scale,
        softcap=softcap,
    )[:, :, 0]


def _unseen(trees: TreeMask, lengths: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """[S, keys] whether a token is one that the sequence's newest does not see."""
    back = lengths - 1 - keys
    bits = trees.unseen[:, None] >> back.clamp(0, TREE_BITS - 1)
    return (bits & 1).bool() & (back < TREE_BITS)


def _scores_and_sum(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Softmax-weighted values: [b, heads, n, head dim]; no mask means causal."""
    if softcap is None:
        return scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    group = query.shape[1] // key.shape[1]
    key, value = (side.repeat_interleave(group, 1) for side in (key, value))
    scores = query @ key.transpose(2, 3) * scale
    scores = torch.tanh(scores / softcap) * softcap
    if mask is None:
        mask = torch.ones(
            scores.shape[-2:], dtype=torch.bool, device=query.device
        ).tril()
    scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    return weights @ value
