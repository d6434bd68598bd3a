"""Causal attention of many new tokens per request over the paged cache.

FlashAttention-2 (Dao 2023) over blocks: a program takes a tile of rows, which are the
query heads of some tokens that share a KV head, and walks over their context. The new
keys and values are in the cache already, so that old and new ones are read alike.
"""

import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.launching import launch
from hookline_kernels.gpu.tilings import Tiling, paged_tiling
from hookline_kernels.gpu.walking import (
    PagedHead,
    Scoring,
    SoftmaxState,
    averages,
    first_state,
    load_rows,
    row_numbers,
    rows_aligned,
    score_factors,
    step_of,
    store_rows,
    walk,
)

_LEAST_ROWS = 16
_STATE_BYTES = 1 << 16
"""Largest size of a tile's weighted sums, which are kept in registers."""


def prefill_attention(
    query: torch.Tensor,
    layer: AttentionLayer,
    block_tables: torch.Tensor,
    *,
    query_starts: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    output: torch.Tensor | None = None,
    tiling: Tiling | None = None,
) -> torch.Tensor:
    """Attention of a flattened batch of R requests' last tokens.

    Args:
        query: [T, heads, key dim], bfloat16, float16 or float32.
        layer: Its cache has the same dtype and any strides.
        block_tables: [R, blocks of the longest request] integers, rows contiguous.
        query_starts: [R + 1] integers on the device; each request's first row of
            `query`, and the end of the last one's rows.
        seq_lens: [R] integers on the device; tokens in the cache, new ones included.
        max_query_len: At least the new tokens of any request.
        output: Memory for the result; None allocates it.
        tiling: None chooses it.

    Returns:
        [T, heads, value dim] of the query's dtype; rows of no request stay unwritten.
    """
    keys, values, window = layer.keys, layer.values, layer.window
    query = rows_aligned(query)
    heads, key_width = query.shape[1:]
    kv_heads, value_width = values.shape[2:]
    if output is None:
        output = query.new_empty(len(query), heads, value_width)
    group = heads // kv_heads
    chosen = tiling or paged_tiling(query.device)
    rows = _rows_of_tile(max_query_len * group, group, values, chosen.rows)
    inner, outer = score_factors(layer.scale, layer.softcap)
    tiles = -(-max_query_len // (rows // group))
    launch(
        _prefill_kernel,
        (tiles, len(seq_lens), kv_heads),
        *(query, *query.stride()[:2]),
        *(keys, *keys.stride()),
        *(values, *values.stride()),
        *(block_tables, block_tables.stride(0), query_starts, seq_lens),
        *(output, *output.stride()[:2]),
        *(window or 0, inner, outer),
        *(seq_lens if each is None else each for each in (layer.sinks, layer.slopes)),
        windowed=window is not None,
        capped=layer.softcap is not None,
        has_sinks=layer.sinks is not None,
        sloped=layer.slopes is not None,
        group=group,
        rows=rows,
        key_width=key_width,
        key_pad=power_of_two(key_width, 16),
        value_width=value_width,
        value_pad=power_of_two(value_width, 16),
        block_size=keys.shape[1],
        step=min(step_of(keys, values), chosen.step),
        ahead=chosen.ahead,
        num_warps=chosen.warps if rows == chosen.rows else 4,
        **chosen.options,
    )
    return output


def _rows_of_tile(wanted: int, group: int, values: torch.Tensor, most: int) -> int:
    """Returns a power of two that holds a group, and whose state fits registers."""
    row_bytes = power_of_two(values.shape[-1], 16) * 4
    most = min(most, _STATE_BYTES // row_bytes)
    if values.dtype == torch.float32:
        most = min(most, 64)  # its keys and values take twice the shared memory
    return max(min(power_of_two(wanted), most), power_of_two(group, _LEAST_ROWS))


@kernel
def _prefill_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    query: tl.tensor,
    query_token: tl.tensor,
    query_head: tl.tensor,
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
    tables: tl.tensor,
    table_row: tl.tensor,
    starts: tl.tensor,
    lengths: tl.tensor,
    output: tl.tensor,
    output_token: tl.tensor,
    output_head: tl.tensor,
    window: tl.tensor,
    inner: tl.tensor,
    outer: tl.tensor,
    sinks: tl.tensor,
    slopes: tl.tensor,
    windowed: tl.constexpr,
    capped: tl.constexpr,
    has_sinks: tl.constexpr,
    sloped: tl.constexpr,
    group: tl.constexpr,
    rows: tl.constexpr,
    key_width: tl.constexpr,
    key_pad: tl.constexpr,
    value_width: tl.constexpr,
    value_pad: tl.constexpr,
    block_size: tl.constexpr,
    step: tl.constexpr,
    ahead: tl.constexpr,
) -> None:
    """Computes one tile of one request and KV head; the longest ones come first."""
    tile_tokens: tl.constexpr = rows // group
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    request = tl.program_id(1).to(tl.int64)
    kv_head = tl.program_id(2).to(tl.int64)
    start = tl.load(starts + request).to(tl.int64)
    count = (tl.load(starts + request + 1) - start).to(tl.int32)
    length = tl.load(lengths + request).to(tl.int32)
    first = tile * tile_tokens
    if first >= count:
        return
    row = tl.arange(0, rows)
    tokens = first + row // group
    heads = kv_head * group + row % group
    is_row = (row < tile_tokens * group) & (tokens < count)
    at = (start + tokens)[:, None]
    query_at = query + at * query_token + heads[:, None] * query_head
    slope = row_numbers(slopes, heads, is_row, sloped, 0.0)
    cached = length - count
    keys, values = keys + kv_head * key_head, values + kv_head * value_head
    state = _walk_causally(
        load_rows(query_at, is_row, key_width, key_pad),
        first_state(sinks, heads, is_row, is_row, has_sinks, value_pad),
        cached + tokens,
        cached + first,
        tl.minimum(cached + first + tile_tokens, length),
        tables + request * table_row,
        PagedHead(keys, key_block, key_token, key_dim, key_width),
        PagedHead(values, value_block, value_token, value_dim, value_width),
        Scoring(window, inner, outer, slope, capped, sloped),
        windowed=windowed,
        block_size=block_size,
        step=step,
        ahead=ahead,
    )
    output_at = output + at * output_token + heads[:, None] * output_head
    store_rows(output_at, averages(state), is_row, value_width)


@kernel
def _walk_causally(  # noqa: PLR0917 - a kernel takes no keywords
    queries: tl.tensor,
    state: SoftmaxState,
    positions: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    table: tl.tensor,
    keys: PagedHead,
    values: PagedHead,
    scoring: Scoring,
    windowed: tl.constexpr,
    block_size: tl.constexpr,
    step: tl.constexpr,
    ahead: tl.constexpr,
) -> SoftmaxState:
    """Walks over the context of rows, of which the first is at position `first`.

    Arguments and what is returned are those of `walk`.
    """
    # Tokens that all rows attend to come first, without masks.
    begin = first * 0
    border = (first + 1) // step * step
    if windowed:
        begin = tl.maximum(first + 1 - scoring.window, 0) // step * step
        border = begin
    for masked in tl.static_range(2):
        if masked or not windowed:
            state = walk(
                queries,
                state,
                positions,
                border if masked else begin,
                end if masked else border,
                table,
                keys,
                values,
                scoring,
                masked=masked,
                windowed=windowed,
                block_size=block_size,
                step=step,
                spares=True,
                ahead=ahead,
            )
    return state
