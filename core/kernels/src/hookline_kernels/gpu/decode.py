"""Paged attention of one new token each of many requests, cut into splits.

Flash-decoding (Dao et al. 2023): every request is cut into the same number of splits,
which run in parallel; each leaves an average and the logarithm of its weights' sum, and
the last one to end merges them, always in the same order. A program takes all query
heads that share a KV head, so that keys and values are read once.
"""

from functools import lru_cache, partial

import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.gpu.chaining import chained, follow, lead
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.walking import (
    PagedHead,
    Scoring,
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

LEAST_SPLIT_TOKENS = 64
"""Least tokens of a split while programs are too few for the device."""
LEAST_HALF_TOKENS = 512
"""Least tokens of one of two splits, which only shorten the longest requests."""
MOST_SPLITS = 32
PROGRAMS_A_PROCESSOR = 4
"""Programs per multiprocessor, where splits make them."""
_MERGED_NUMBERS = 4096
"""Numbers of splits that a program merges at a time."""
_LEAST_ARRIVALS = 1 << 14
_ASSUMED_PROCESSORS = 8
"""Number of multiprocessors in Triton's interpreter, which has no device."""


def decode_attention(
    query: torch.Tensor,
    layer: AttentionLayer,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    num_splits: int,
    output: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes attention of B requests' last tokens over their cached keys and values.

    Args:
        query: [B, heads, key dim], bfloat16, float16 or float32.
        layer: Its cache has the same dtype and any strides.
        block_tables: [B, blocks of the longest request] integers, rows contiguous.
        seq_lens: [B] integers on the device. A request of 0 tokens gives zeros, so
            that a graph's batch can be padded.
        num_splits: Of `choose_splits`; any number ≥ 1 gives the same up to rounding.
        output: Memory for the result; None allocates it.

    Returns:
        [B, heads, value dim] of the query's dtype.
    """
    keys, values, window = layer.keys, layer.values, layer.window
    query = rows_aligned(query)
    count, heads, key_width = query.shape
    kv_heads, value_width = values.shape[2:]
    if output is None:
        output = query.new_empty(count, heads, value_width)
    shape = (count, heads, num_splits) if num_splits > 1 else (0, 0, 0)
    floats = partial(torch.empty, dtype=torch.float32, device=query.device)
    partial_sums, partial_logs = floats((*shape, value_width)), floats(shape)
    inner, outer = score_factors(layer.scale, layer.softcap)
    step = step_of(keys, values)
    group = heads // kv_heads
    group_merged, value_pad = power_of_two(group), power_of_two(value_width, 16)
    arrivals = _arrivals(query.device, count * kv_heads) if num_splits > 1 else seq_lens
    _decode_kernel[(count, kv_heads, num_splits)](
        *(query, *query.stride()[:2]),
        *(keys, *keys.stride()),
        *(values, *values.stride()),
        *(block_tables, block_tables.stride(0), seq_lens),
        *(output, *output.stride()[:2], partial_sums, partial_logs),
        *(arrivals, window or 0, inner, outer),
        *(seq_lens if each is None else each for each in (layer.sinks, layer.slopes)),
        least=LEAST_HALF_TOKENS if num_splits <= 2 else LEAST_SPLIT_TOKENS,
        windowed=window is not None,
        capped=layer.softcap is not None,
        has_sinks=layer.sinks is not None,
        sloped=layer.slopes is not None,
        group=group,
        group_pad=power_of_two(group, 16),
        group_merged=group_merged,
        key_width=key_width,
        key_pad=power_of_two(key_width, 16),
        value_width=value_width,
        value_pad=value_pad,
        block_size=keys.shape[1],
        step=step,
        splits=num_splits,
        splits_pad=power_of_two(num_splits),
        merged=max(
            1,
            min(
                _MERGED_NUMBERS // (group_merged * value_pad), power_of_two(num_splits)
            ),
        ),
        num_warps=4,
        num_stages=2,
        **chained(query.device),
    )
    return output


def choose_splits(
    device: torch.device,
    *,
    num_seqs: int,
    num_kv_heads: int,
    max_seq_len: int,
    window: int | None = None,
) -> int:
    """Returns the largest number of splits of a request: a power of two.

    It keeps the whole device busy; requests that do so alone get 2, so that one of
    many tokens does not run on when all others have ended. Measured on an H200.

    Args:
        device: Determines the number of multiprocessors.
        num_seqs: Number of requests.
        num_kv_heads: Number of KV heads.
        max_seq_len: Upper bound of the requests' tokens; for a CUDA graph, in all steps
            that it will be replayed for.
        window: The layer's window.
    """
    seen = max_seq_len if window is None else min(window, max_seq_len)
    programs = max(1, num_seqs * num_kv_heads)
    processors = _multiprocessors(device)
    if programs >= processors:
        return 2 if seen > LEAST_HALF_TOKENS else 1
    wanted = PROGRAMS_A_PROCESSOR * processors // programs
    useful = -(-seen // LEAST_SPLIT_TOKENS)
    splits = min(power_of_two(wanted + 1) // 2, power_of_two(useful), MOST_SPLITS)
    return splits if splits > 2 else 1


def _arrivals(device: torch.device, count: int) -> torch.Tensor:
    """Returns `count` zeros, which count arrived splits and are zeros again afterwards.

    Kernels of one stream share them. Earlier ones stay, for captured graphs.
    """
    known = _known_arrivals.setdefault(device, [])
    if not known or len(known[-1]) < count:
        size = max(count, _LEAST_ARRIVALS)
        known.append(torch.zeros(size, dtype=torch.int32, device=device))
    return known[-1]


_known_arrivals: dict[torch.device, list[torch.Tensor]] = {}


@lru_cache
def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return _ASSUMED_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


@kernel
def _seen_and_share(  # noqa: PLR0917 - a kernel takes no keywords
    length: tl.tensor,
    window: tl.tensor,
    windowed: tl.constexpr,
    splits: tl.constexpr,
    least: tl.constexpr,
    step: tl.constexpr,
) -> tl.tensor:
    """Returns the first token in the window, and the tokens of each split."""
    first = length * 0
    if windowed:
        first = tl.maximum(length - window, 0)
    share = tl.maximum(tl.cdiv(length - first, splits), least)
    return first, tl.cdiv(share, step) * step


@kernel
def _decode_kernel(  # noqa: PLR0917 - a kernel takes no keywords
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
    lengths: tl.tensor,
    output: tl.tensor,
    output_token: tl.tensor,
    output_head: tl.tensor,
    partial_sums: tl.tensor,
    partial_logs: tl.tensor,
    arrivals: tl.tensor,
    window: tl.tensor,
    inner: tl.tensor,
    outer: tl.tensor,
    sinks: tl.tensor,
    slopes: tl.tensor,
    least: tl.constexpr,
    windowed: tl.constexpr,
    capped: tl.constexpr,
    has_sinks: tl.constexpr,
    sloped: tl.constexpr,
    group: tl.constexpr,
    group_pad: tl.constexpr,
    group_merged: tl.constexpr,
    key_width: tl.constexpr,
    key_pad: tl.constexpr,
    value_width: tl.constexpr,
    value_pad: tl.constexpr,
    block_size: tl.constexpr,
    step: tl.constexpr,
    splits: tl.constexpr,
    splits_pad: tl.constexpr,
    merged: tl.constexpr,
    chains: tl.constexpr = False,
) -> None:
    """Computes one request, KV head and split; the last split merges all."""
    lead(chains)
    follow(chains)
    sequence = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    length = tl.load(lengths + sequence).to(tl.int32)
    first, share = _seen_and_share(length, window, windowed, splits, least, step)
    begin = first + split * share
    # A request of no tokens has one split, which gives zeros.
    written = tl.maximum(tl.cdiv(length - first, share), 1)
    if split >= written:
        return
    members = tl.arange(0, group_pad)
    heads = kv_head * group + members
    is_head = members < group
    query_at = query + sequence * query_token + heads[:, None] * query_head
    slope = row_numbers(slopes, heads, is_head, sloped, 0.0)
    keys, values = keys + kv_head * key_head, values + kv_head * value_head
    state = walk(
        load_rows(query_at, is_head, key_width, key_pad),
        first_state(sinks, heads, is_head, split == 0, has_sinks, value_pad),
        tl.zeros([group_pad], tl.int32) + (length - 1),
        begin,
        tl.minimum(begin + share, length),
        tables + sequence * table_row,
        PagedHead(keys, key_block, key_token, key_dim, key_width),
        PagedHead(values, value_block, value_token, value_dim, value_width),
        Scoring(window, inner, outer, slope, capped, sloped),
        masked=True,
        windowed=False,
        block_size=block_size,
        step=step,
    )
    found = averages(state)
    if written == 1:
        rows = output + sequence * output_token + heads[:, None] * output_head
        store_rows(rows, found, is_head, value_width)
    elif splits > 1:
        places = (sequence * tl.num_programs(1) * group + heads) * splits + split
        weight = tl.where(state.total > 0, state.total, 1.0)
        logs = state.largest + tl.log2(weight)
        tl.store(partial_logs + places, logs, mask=is_head)
        parts = partial_sums + places[:, None] * value_width
        store_rows(parts, found, is_head, value_width)
        tl.debug_barrier()  # all threads have written
        arrival = arrivals + sequence * tl.num_programs(1) + kv_head
        if tl.atomic_add(arrival, 1, sem="acq_rel", scope="gpu") == written - 1:
            tl.store(arrival, 0)
            place = (sequence * tl.num_programs(1) + kv_head) * group
            _merge(
                partial_sums + place * splits * value_width,
                partial_logs + place * splits,
                output + sequence * output_token + kv_head * group * output_head,
                output_head,
                written,
                group,
                group_merged,
                value_width,
                value_pad,
                splits,
                splits_pad,
                merged,
            )


@kernel
def _merge(  # noqa: PLR0917 - a kernel takes no keywords
    partial_sums: tl.tensor,
    partial_logs: tl.tensor,
    output: tl.tensor,
    output_head: tl.tensor,
    written: tl.tensor,
    group: tl.constexpr,
    group_merged: tl.constexpr,
    value_width: tl.constexpr,
    value_pad: tl.constexpr,
    splits: tl.constexpr,
    splits_pad: tl.constexpr,
    merged: tl.constexpr,
) -> None:
    """Merges the first `written` splits of the heads that share a KV head."""
    member = tl.arange(0, group_merged)
    is_member = member < group
    parts = tl.arange(0, splits_pad)
    mask = (parts < written)[:, None] & is_member[None, :]
    at = partial_logs + member[None, :] * splits + parts[:, None]
    logs = tl.load(at, mask=mask, other=float("-inf"))
    peak = tl.max(logs, 0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.sum(tl.exp2(logs - peak[None, :]), 0)
    dims = tl.arange(0, value_pad)
    is_dim = dims < value_width
    sums = tl.zeros([group_merged, value_pad], tl.float32)
    for start in range(0, written, merged):
        some = start + tl.arange(0, merged)
        is_some = (some < written)[:, None] & is_member[None, :]
        place = member[None, :] * splits + some[:, None]
        some_logs = tl.load(partial_logs + place, mask=is_some, other=float("-inf"))
        weights = tl.exp2(some_logs - peak[None, :])
        averaged = tl.load(
            partial_sums + place[:, :, None] * value_width + dims[None, None, :],
            mask=is_some[:, :, None] & is_dim[None, None, :],
            other=0.0,
        )
        sums += tl.sum(averaged * weights[:, :, None], 0)
    found = sums / tl.where(total > 0, total, 1.0)[:, None]
    store_rows(output + member[:, None] * output_head, found, is_member, value_width)
