"""Attention over latent keys, whose first numbers are the values.

Multi-head latent attention with absorbed projections (DeepSeek-AI 2024, DeepSeek-V2):
all query heads share one KV head, so that the queries of a request are the rows of one
product with its keys. The values are a view of the keys and have no memory of their
own. Plain torch, on any device.
"""

import torch

from hookline_kernels.attention import gather, unseen_tokens, write_cache
from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.metadata import AttentionMetadata

_MOST_SCORES = 1 << 22
"""Scores of a product, at most, which bounds its memory."""


def latent_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: AttentionLayer,
    batch: AttentionMetadata,
) -> torch.Tensor:
    """Writes a step's keys into the cache, then attends; values are not read."""
    write_cache(layer.keys, key, batch)
    return attend_latent(query, key, value, layer, batch)


def attend_latent(
    query: torch.Tensor,
    _key: torch.Tensor,
    _value: torch.Tensor,
    layer: AttentionLayer,
    batch: AttentionMetadata,
) -> torch.Tensor:
    """Attends over cached keys: [T, heads, key dim] → [T, heads, value dim].

    Args:
        query: [T, heads, key dim].
        layer: A plain one without a window and with one KV head.
        batch: The step's.
    """
    assert layer.is_plain
    assert layer.window is None
    output = query.new_empty(*query.shape[:2], layer.values.shape[-1])
    start = 0
    for index, count in enumerate(batch.query_lens):
        rows = slice(start, start + count)
        blocks, length = batch.block_tables[index], batch.seq_lens[index]
        keys = gather(layer.keys, blocks, length, query.dtype)[:, 0]
        hidden = _hidden(batch, index, length)
        _attend(query[rows], keys, layer.scale, hidden, output[rows])
        start += count
    return output


def _hidden(batch: AttentionMetadata, index: int, length: int) -> torch.Tensor | None:
    """[1, tokens] whether a node of a tree does not attend to a token."""
    if batch.trees is None or index >= batch.num_decodes:
        return None
    places = torch.arange(length, device=batch.trees.unseen.device)[None]
    unseen = batch.trees.unseen[index : index + 1]
    return unseen_tokens(unseen, batch.seq_lens_tensor[index], places)


def _weighted_sums(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Returns weights @ values, where a weight of 0 makes 0 of a not-a-number, too."""
    found = weights @ values
    if found.device.type == "cpu" and bool(found.isfinite().all()):
        return found
    numbers = values.nan_to_num(0.0, 0.0, 0.0)
    is_broken = (numbers != values).any(-1, keepdim=True)
    is_spoilt = weights @ is_broken.to(weights.dtype) != 0
    return (weights @ numbers).masked_fill(is_spoilt, float("nan"))


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    scale: float,
    hidden: torch.Tensor | None,
    output: torch.Tensor,
) -> None:
    """The last tokens of one request, [n, heads, dim], over all [s, dim] of it."""
    count, heads, width = len(query), query.shape[1], output.shape[-1]
    length = len(keys)
    step = max(1, _MOST_SCORES // (heads * length))
    for first in range(0, count, step):
        rows = query[first : first + step]
        seen = length - count + first + len(rows)
        scores = rows.flatten(0, 1) @ keys[:seen].t()
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) * scale
        scores = scores.view(len(rows), heads, seen)
        if hidden is not None:
            scores.masked_fill_(hidden, float("-inf"))
        if len(rows) > 1:
            places = torch.arange(seen, device=query.device)
            later = places > places[seen - len(rows) :, None]
            scores.masked_fill_(later[:, None], float("-inf"))
        weights = scores.softmax(-1).to(keys.dtype).flatten(0, 1)
        found = _weighted_sums(weights, keys[:seen, :width])
        output[first : first + len(rows)] = found.view(len(rows), heads, width)
