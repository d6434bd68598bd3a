"""Causal attention of prompts that reads the step's own keys where they were computed.

The new tokens' keys and values lie one after another in memory, so that the device's
copy engine fetches whole tiles of them, with no arithmetic of addresses and no masks.
What a request has in the cache already is read from there first. FlashAttention-2
(Dao 2023); windows, caps, sinks and slopes are left to `prefill_attention`.
"""

import torch
from triton.tools.tensor_descriptor import (  # type: ignore[import-untyped]
    TensorDescriptor,
)

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.gpu.jit import kernel, tl
from hookline_kernels.gpu.launching import launch
from hookline_kernels.gpu.tilings import Tiling, new_tiling
from hookline_kernels.gpu.walking import (
    LOG2_E,
    PagedHead,
    Scoring,
    SoftmaxState,
    averages,
    load_rows,
    store_rows,
    walk,
)

ALIGNED_BYTES = 16
"""Rows that the copy engine fetches begin at multiples of this."""
_FEW_ROWS = 64
"""Rows that four warps multiply at a time."""


class _Tiles(TensorDescriptor):  # type: ignore[misc]
    """A descriptor of rows that `reads_new_tokens` has checked."""

    def __post_init__(self) -> None:
        """Checks nothing again, which would cost more than the launch."""


def reads_new_tokens(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: AttentionLayer
) -> bool:
    """Returns whether `new_tokens_attention` computes this layer."""
    extras = (layer.window, layer.softcap, layer.sinks, layer.slopes)
    width, heads = query.shape[-1], query.shape[1]
    return (
        all(each is None for each in extras)
        and layer.scale > 0
        and query.dtype in {torch.bfloat16, torch.float16}
        and query.stride(-1) == 1
        and key.shape == value.shape
        and width in {64, 128}
        and heads // key.shape[1] in {1, 2, 4, 8, 16, 32}
        and all(_is_aligned(each) for each in (key, value))
    )


def new_tokens_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: AttentionLayer,
    block_tables: torch.Tensor,
    *,
    query_starts: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    has_cached: bool,
    output: torch.Tensor,
    tiling: Tiling | None = None,
) -> None:
    """Attends as `prefill_attention` does, for layers that `reads_new_tokens` accepts.

    Args:
        query: [T, heads, dim].
        key: [T, KV heads, dim]; the new tokens' keys as they are in the cache.
        value: Likewise.
        layer: Its cache has the tokens before the new ones.
        block_tables: [R, blocks of the longest request] integers.
        query_starts: [R + 1] integers; each request's first row, and the last's end.
        seq_lens: [R] integers; tokens of each request, new ones included.
        max_query_len: At least the new tokens of any request.
        has_cached: Whether any request has tokens before its new ones.
        output: [T, heads, dim]; rows of no request stay unwritten.
        tiling: None chooses it.
    """
    heads, width = query.shape[1:]
    chosen = tiling or new_tiling(
        query.device,
        width=width,
        has_cached=has_cached,
        query_rows=len(query) * heads,
    )
    kv_heads = key.shape[1]
    group = heads // kv_heads
    keys, values = layer.keys, layer.values
    is_short = max_query_len * group <= _FEW_ROWS < chosen.rows
    rows = _FEW_ROWS if is_short else chosen.rows
    tiles = -(-max_query_len // (rows // group))
    launch(
        _new_tokens_kernel,
        (kv_heads, len(seq_lens), tiles),
        *(query, *query.stride()[:2]),
        _fetched(key, chosen.step),
        _fetched(value, chosen.step),
        *(keys, *keys.stride(), values, *values.stride()),
        *(block_tables, block_tables.stride(0), query_starts, seq_lens),
        *(output, *output.stride()[:2], layer.scale * LOG2_E),
        group=group,
        rows=rows,
        width=width,
        block_size=keys.shape[1],
        step=chosen.step,
        has_cached=has_cached,
        num_warps=4 if is_short else chosen.warps,
        **chosen.options,
    )


def _is_aligned(rows: torch.Tensor) -> bool:
    """Returns whether heads follow one another and tokens begin at aligned places."""
    token, head, dim = rows.stride()
    return (
        dim == 1
        and head == rows.shape[-1]
        and token * rows.itemsize % ALIGNED_BYTES == 0
        and rows.data_ptr() % ALIGNED_BYTES == 0
    )


def _fetched(rows: torch.Tensor, step: int) -> TensorDescriptor:
    """Describes [T, heads · dim], of which `step` tokens of one head are fetched."""
    tokens, heads, width = rows.shape
    shape, strides = [tokens, heads * width], [rows.stride(0), 1]
    return _Tiles(rows, shape, strides, [step, width])


@kernel
def _new_tokens_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    query: tl.tensor,
    query_token: tl.tensor,
    query_head: tl.tensor,
    new_keys: tl.tensor,
    new_values: tl.tensor,
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
    inner: tl.tensor,
    group: tl.constexpr,
    rows: tl.constexpr,
    width: tl.constexpr,
    block_size: tl.constexpr,
    step: tl.constexpr,
    has_cached: tl.constexpr,
) -> None:
    """Computes one tile of one request and KV head; the longest ones come first."""
    tile_tokens: tl.constexpr = rows // group
    kv_head = tl.program_id(0)
    request = tl.program_id(1).to(tl.int64)
    start = tl.load(starts + request).to(tl.int32)
    count = tl.load(starts + request + 1).to(tl.int32) - start
    first = (tl.num_programs(2) - 1 - tl.program_id(2)) * tile_tokens
    if first >= count:
        return
    row = tl.arange(0, rows)
    tokens = first + row // group
    heads = kv_head * group + row % group
    is_row = tokens < count
    at = (start + tokens).to(tl.int64)[:, None]
    query_at = query + at * query_token + heads[:, None] * query_head
    queries = load_rows(query_at, is_row, width, width)
    state = SoftmaxState(
        tl.full([rows], float("-inf"), tl.float32),
        tl.zeros([rows], tl.float32),
        tl.zeros([rows, width], tl.float32),
    )
    if has_cached:
        cached = tl.load(lengths + request).to(tl.int32) - count
        head = kv_head.to(tl.int64)
        state = _walk_cached(
            queries,
            state,
            cached,
            tables + request * table_row,
            PagedHead(keys + head * key_head, key_block, key_token, key_dim, width),
            PagedHead(
                values + head * value_head, value_block, value_token, value_dim, width
            ),
            Scoring(0, inner, 1.0, inner, False, False),
            block_size=block_size,
            step=step,
        )
    largest, total, sums = state
    border = first // step * step
    column = kv_head * width
    for begin in range(0, border, step):
        scores = tl.dot(queries, new_keys.load([start + begin, column]).T)
        peak = tl.maximum(largest, tl.max(scores, 1) * inner)
        weights = tl.exp2(scores * inner - peak[:, None])
        kept = tl.exp2(largest - peak)
        total = total * kept + tl.sum(weights, 1)
        tile = new_values.load([start + begin, column])
        sums = tl.dot(weights.to(tile.dtype), tile, sums * kept[:, None])
        largest = peak
    # A row attends to a part of the rest, and to none of the next request's tokens.
    for begin in tl.range(border, first + tile_tokens, step, num_stages=1):
        tile = new_values.load([start + begin, column])
        is_none = tile != tile  # noqa: PLR0124
        is_broken = tl.max(is_none.to(tl.int32), 1) > 0
        tile = tl.where(is_none, 0.0, tile).to(tile.dtype)
        new = begin + tl.arange(0, step)
        hidden = tl.where(is_broken, float("nan"), 0.0)
        scores = tl.dot(queries, new_keys.load([start + begin, column]).T)
        scores = scores * inner + hidden[None, :]
        last = tl.minimum(tokens, count - 1)
        scores = tl.where(new[None, :] <= last[:, None], scores, float("-inf"))
        # All rows have seen their request's first token: their maximum is finite.
        peak = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - peak[:, None])
        kept = tl.exp2(largest - peak)
        total = total * kept + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tile.dtype), tile, sums * kept[:, None])
        largest = peak
    output_at = output + at * output_token + heads[:, None] * output_head
    found = averages(SoftmaxState(largest, total, sums))
    store_rows(output_at, found, is_row, width)


@kernel
def _walk_cached(  # noqa: PLR0917 - a kernel takes no keywords
    queries: tl.tensor,
    state: SoftmaxState,
    cached: tl.tensor,
    table: tl.tensor,
    keys: PagedHead,
    values: PagedHead,
    scoring: Scoring,
    block_size: tl.constexpr,
    step: tl.constexpr,
) -> SoftmaxState:
    """Walks over the tokens that are only in the cache, of which all rows see all.

    Arguments and what is returned are those of `walk`.
    """
    whole = cached // step * step
    positions = tl.full([queries.shape[0]], 0, tl.int32) + cached
    for masked in tl.static_range(2):
        state = walk(
            queries,
            state,
            positions,
            whole if masked else cached * 0,
            cached if masked else whole,
            table,
            keys,
            values,
            scoring,
            masked=masked,
            windowed=False,
            block_size=block_size,
            step=step,
            ahead=True,
        )
    return state
