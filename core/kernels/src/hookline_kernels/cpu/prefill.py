"""Attention of many new tokens of one request, by torch's fused kernel.

New tokens attend to all cached tokens, and causally to each other. These are two calls
without a mask, merged by the logarithms of their sums; a mask would be as large as the
scores, and half of them would be computed for nothing.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from hookline_kernels.attention import weighted_values
from hookline_kernels.attention_layer import AttentionLayer

_MOST_ROWS = 256
"""Queries of a masked call, which bounds the size of mask and scores."""


def attend_sequence(  # noqa: PLR0917 - three sides of new tokens, two of cached
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cached_key: torch.Tensor,
    cached_value: torch.Tensor,
    layer: AttentionLayer,
) -> torch.Tensor:
    """Causal attention of n new tokens over c cached ones and themselves.

    Args:
        query: [n, heads, key dim].
        key: [n, KV heads, key dim].
        value: [n, KV heads, value dim].
        cached_key: [KV heads, c, key dim].
        cached_value: [KV heads, c, value dim].
        layer: How to score; its cache is not read.

    Returns:
        [n, heads, value dim].
    """
    scale, window = layer.scale, layer.window
    heads, keys, values = (_by_head(side) for side in (query, key, value))
    if window is not None and window >= len(query) + cached_key.shape[1]:
        window = None
    if window is not None or not layer.is_plain or key.shape[2] != value.shape[2]:
        output = _by_rows(
            heads,
            torch.cat((cached_key, keys), 1),
            torch.cat((cached_value, values), 1),
            layer,
        )
    elif cached_key.shape[1]:
        new, cached = (keys, values), (cached_key, cached_value)
        output = _cached_and_new(heads, new, cached, scale)
    else:
        output = scaled_dot_product_attention(
            heads[None],
            keys[None],
            values[None],
            is_causal=True,
            scale=scale,
            enable_gqa=True,
        )[0]
    if not bool(output.isfinite().all()):  # tokens before it must not see a NaN
        sides = torch.cat((cached_key, keys), 1), torch.cat((cached_value, values), 1)
        output = _by_rows(heads, *sides, layer)
    return output.transpose(0, 1)


def _by_head(side: torch.Tensor) -> torch.Tensor:
    """[heads, n, dim], each head contiguous, which the fused kernel requires."""
    return (side if side.stride(2) == 1 else side.contiguous()).transpose(0, 1)


def _cached_and_new(
    query: torch.Tensor,
    new: tuple[torch.Tensor, torch.Tensor],
    cached: tuple[torch.Tensor, torch.Tensor],
    scale: float,
) -> torch.Tensor:
    """Both parts' outputs, averaged by their shares of the weights."""
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
    outputs, sums = [], []
    for (keys, values), is_causal in ((cached, False), (new, True)):
        output, log_sum = fused(
            query[None], keys[None], values[None], 0.0, is_causal, scale=scale
        )
        outputs.append(output[0].float())
        sums.append(log_sum[0])
    share = torch.sigmoid(sums[1] - sums[0])[..., None]
    return torch.lerp(outputs[0], outputs[1], share).to(query.dtype)


def _by_rows(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, layer: AttentionLayer
) -> torch.Tensor:
    """Queries in chunks, each over the tokens that it may attend to."""
    count, length = query.shape[1], keys.shape[1]
    outputs = []
    for start in range(0, count, _MOST_ROWS):
        end = min(start + _MOST_ROWS, count)
        last = length - count + end
        first = 0
        if layer.window is not None:
            first = max(0, length - count + start + 1 - layer.window)
        outputs.append(
            _masked(
                query[:, start:end], keys[:, first:last], values[:, first:last], layer
            )
        )
    return torch.cat(outputs, 1)


def _masked(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, layer: AttentionLayer
) -> torch.Tensor:
    """The last tokens of a stretch of tokens over all of it."""
    count, length = query.shape[1], keys.shape[1]
    positions = torch.arange(length - count, length)[:, None]
    distances = torch.arange(length)[None, :] - positions
    mask = distances <= 0
    if layer.window is not None:
        mask &= distances > -layer.window
    sides = (query[None], keys[None], values[None])
    return weighted_values(*sides, layer, mask=mask, distances=distances)[0]
