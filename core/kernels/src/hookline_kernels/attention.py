"""Attention over a paged KV cache in plain torch, batched for decodes.

The reference of the compiled kernels, and the fallback where there are none. A layer's
cache is two tensors, K and V, of shape [blocks, block size, KV heads, head dim] each,
with any strides. Queries are [T, heads, head dim] of a flattened batch; query heads
share KV heads in groups (grouped-query attention, Ainslie et al. 2023).
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.cache_numbers import EIGHT_BITS, quantized
from hookline_kernels.layout import gathered, scales_of
from hookline_kernels.metadata import TREE_BITS, AttentionMetadata


def write_cache(
    cache: torch.Tensor, values: torch.Tensor, batch: AttentionMetadata
) -> None:
    """Writes a step's [T, KV heads, head dim] into a layer's keys or values."""
    write_slots(cache, values, batch.slot_mapping)


def write_slots(cache: torch.Tensor, values: torch.Tensor, slots: torch.Tensor) -> None:
    """Writes [T, KV heads, head dim] at slots, [T] int64, of keys or values."""
    places = slots // cache.shape[1], slots % cache.shape[1]
    if cache.dtype not in EIGHT_BITS:
        cache[places] = values
        return
    cache[places], scales = quantized(values, cache.dtype)
    if scales is not None and (target := scales_of(cache)) is not None:
        target[places] = scales


def paged_attention(
    query: torch.Tensor, layer: AttentionLayer, batch: AttentionMetadata
) -> torch.Tensor:
    """Causal attention of each token over its own request, whose K and V are written.

    Args:
        query: [T, heads, head dim].
        layer: Its cache may have any strides.
        batch: The step's.

    Returns:
        [T, heads, head dim of the values].
    """
    output = query.new_empty(*query.shape[:2], layer.values.shape[-1])
    start = batch.num_decodes
    if start:
        output[:start] = _attend_decodes(query[:start], layer, batch)
    for index in range(batch.num_decodes, len(batch.query_lens)):
        end = start + batch.query_lens[index]
        blocks, length = batch.block_tables[index], batch.seq_lens[index]
        output[start:end] = _attend_one(
            query[start:end],
            gather(layer.keys, blocks, length, query.dtype),
            gather(layer.values, blocks, length, query.dtype),
            layer,
        )
        start = end
    return output


def reference_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: AttentionLayer,
    batch: AttentionMetadata,
) -> torch.Tensor:
    """Writes all of a step's keys and values into the cache, then attends."""
    write_cache(layer.keys, key, batch)
    write_cache(layer.values, value, batch)
    return paged_attention(query, layer, batch)


def attend_written(
    query: torch.Tensor,
    _key: torch.Tensor,
    _value: torch.Tensor,
    layer: AttentionLayer,
    batch: AttentionMetadata,
) -> torch.Tensor:
    """Attends over cached keys and values."""
    return paged_attention(query, layer, batch)


def gather(
    cache: torch.Tensor, blocks: torch.Tensor, length: int, dtype: torch.dtype
) -> torch.Tensor:
    """Returns one request's part of the cache: [length, KV heads, head dim]."""
    count = -(-length // cache.shape[1])
    return gathered(cache, blocks[:count], dtype).flatten(0, 1)[:length]


def _gather_many(
    cache: torch.Tensor, tables: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Many requests' parts: [b, KV heads, blocks · block size, head dim]."""
    rows = gathered(cache, tables.flatten(), dtype)  # twice as fast as cache[tables]
    return rows.reshape(len(tables), -1, *cache.shape[2:]).transpose(1, 2)


def _attend_one(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: AttentionLayer
) -> torch.Tensor:
    """The last tokens of one request, [n, heads, head dim], over all [s, …] of it."""
    count, length = len(query), len(key)
    positions = torch.arange(length - count, length, device=query.device)[:, None]
    distances = torch.arange(length, device=query.device)[None, :] - positions
    mask = None
    if layer.window is not None or count != length or not layer.is_plain:
        mask = distances <= 0
        if layer.window is not None:
            mask &= distances > -layer.window
    return weighted_values(
        query.transpose(0, 1)[None],
        key.transpose(0, 1)[None],
        value.transpose(0, 1)[None],
        layer,
        mask=mask,
        distances=distances,
    )[0].transpose(0, 1)


def _attend_decodes(
    query: torch.Tensor, layer: AttentionLayer, batch: AttentionMetadata
) -> torch.Tensor:
    """Computes one token each of b requests in one call: [b, heads, head dim]."""
    count, block_size = len(query), layer.keys.shape[1]
    longest = max(batch.seq_lens[:count])
    tables = batch.block_tables[:count, : -(-longest // block_size)]
    lengths = batch.seq_lens_tensor[:count, None]
    keys = torch.arange(tables.shape[1] * block_size, device=query.device)[None, :]
    mask = keys < lengths
    positions = keys
    if (trees := batch.trees) is not None:
        unseen = unseen_tokens(trees.unseen[:, None], lengths, keys)
        mask &= ~unseen
        positions = keys - unseen.cumsum(1)
        lengths = lengths - trees.num_unseen[:, None]  # the window counts positions
    if layer.window is not None:
        mask &= keys >= lengths - layer.window
    return weighted_values(
        query[:, :, None],
        _gather_many(layer.keys, tables, query.dtype),
        _gather_many(layer.values, tables, query.dtype),
        layer,
        mask=mask[:, None, None, :],
        distances=(positions - (lengths - 1))[:, None, None, :],
    )[:, :, 0]


def unseen_tokens(
    unseen: torch.Tensor, lengths: torch.Tensor, keys: torch.Tensor
) -> torch.Tensor:
    """Whether a cached token is hidden from a request's newest; the three broadcast."""
    back = lengths - 1 - keys
    bits = unseen >> back.clamp(0, TREE_BITS - 1)
    return (bits & 1).bool() & (back < TREE_BITS)


def weighted_values(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: AttentionLayer,
    *,
    mask: torch.Tensor | None,
    distances: torch.Tensor,
) -> torch.Tensor:
    """Returns attention [b, heads, n, value dim].

    A query that does not attend to a not-a-number, wherever it may be in the cache,
    gets what it would get without it.

    Args:
        query: [b, heads, n, key dim].
        key: [b, KV heads, s, key dim].
        value: [b, KV heads, s, value dim].
        layer: How to score; its cache is not read.
        mask: Whether a query attends to a key, [b or 1, 1, n, s] or [n, s]; causal
            without, which only plain layers allow.
        distances: Keys' positions minus queries', in the mask's shape.
    """
    found = _weighted(query, key, value, layer, mask, distances)
    if found.device.type == "cpu" and bool(found.isfinite().all()):
        return found
    # A weight of 0 does not suffice, for it makes no 0 of a not-a-number.
    sides = [side.nan_to_num(0.0, 0.0, 0.0) for side in (key, value)]
    is_broken = (sides[0] != key).any(-1) | (sides[1] != value).any(-1)
    seen = is_broken[:, :, None] & (distances <= 0 if mask is None else mask)
    group = query.shape[1] // key.shape[1]
    is_spoilt = seen.any(-1, keepdim=True).repeat_interleave(group, 1)
    found = _weighted(query, sides[0], sides[1], layer, mask, distances)
    return found.masked_fill(is_spoilt, float("nan"))


def _weighted(  # noqa: PLR0917 - as `weighted_values`
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: AttentionLayer,
    mask: torch.Tensor | None,
    distances: torch.Tensor,
) -> torch.Tensor:
    if layer.is_plain:
        return scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=layer.scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    assert mask is not None
    group = query.shape[1] // key.shape[1]
    key, value = (side.repeat_interleave(group, 1) for side in (key, value))
    scores = query @ key.transpose(2, 3)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) * layer.scale
    if layer.softcap is not None:
        scores = torch.tanh(scores / layer.softcap) * layer.softcap
    if layer.slopes is not None:
        scores = scores + layer.slopes[:, None, None] * distances
    scores = scores.masked_fill(~mask, float("-inf"))
    if layer.sinks is None:
        return scores.softmax(-1).to(value.dtype) @ value
    sinks = layer.sinks[:, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.cat((scores, sinks), -1).softmax(-1)[..., :-1]
    return weights.to(value.dtype) @ value
