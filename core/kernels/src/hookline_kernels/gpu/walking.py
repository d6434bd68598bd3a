"""Folds a span of a sequence's paged keys and values into running softmax states.

The states are those of FlashAttention (Dao et al. 2022; Milakov and Gimelshein 2018):
for each row the maximum score, the sum of the weights and the weighted sum of the
values, both relative to it. Scores are in powers of two, which the hardware computes.
"""

import math
from typing import NamedTuple

import torch

from hookline_kernels.gpu.jit import kernel, power_of_two, tl

LOG2_E = math.log2(math.e)
_STAGED_BYTES = 1 << 16
"""Bytes of keys and values that two stages keep in shared memory."""


class SoftmaxState(NamedTuple):
    """What is known of rows after some tokens.

    Attributes:
        largest: [rows] float32; the maximum score.
        total: [rows] float32; the sum of the weights.
        sums: [rows, padded value width] float32; the weighted sum of the values.
    """

    largest: tl.tensor
    total: tl.tensor
    sums: tl.tensor


class PagedHead(NamedTuple):
    """Where the paged cache has the keys, or the values, of one KV head.

    Attributes:
        start: The head's first number.
        block: Stride of blocks.
        token: Stride of tokens.
        dim: Stride of numbers.
        width: Size of a key or value, a constant.
    """

    start: tl.tensor
    block: tl.tensor
    token: tl.tensor
    dim: tl.tensor
    width: tl.constexpr


class Scoring(NamedTuple):
    """How scores come of products; `score_factors` and `row_numbers` return parts.

    Attributes:
        window: Tokens that a row attends to, the one at its position included.
        inner: Factor of the products.
        outer: Factor of the capped scores.
        slopes: [rows] float32; factors of the distance to a row's position.
        capped: Whether the soft cap applies, a constant.
        sloped: Whether the slopes apply, a constant.
    """

    window: tl.tensor
    inner: tl.tensor
    outer: tl.tensor
    slopes: tl.tensor
    capped: tl.constexpr
    sloped: tl.constexpr


@kernel
def walk(  # noqa: PLR0917 - a kernel takes no keywords
    query: tl.tensor,
    state: SoftmaxState,
    positions: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    table: tl.tensor,
    keys: PagedHead,
    values: PagedHead,
    scoring: Scoring,
    masked: tl.constexpr,
    windowed: tl.constexpr,
    block_size: tl.constexpr,
    step: tl.constexpr,
    spares: tl.constexpr = False,
    ahead: tl.constexpr = False,
) -> SoftmaxState:
    """Processes tokens `begin` … `end` − 1 of one request and one KV head.

    Args:
        query: [rows, padded key width] of the keys' dtype.
        state: Of the tokens before.
        positions: [rows]; a row attends to no token behind its position.
        begin: First token.
        end: Behind the last token.
        table: The request's blocks.
        keys: The head's keys.
        values: The head's values.
        scoring: Makes scores of products.
        masked: Whether a row does not attend to all of the tokens, or `end` − `begin`
            is not a multiple of `step`.
        windowed: Whether the window applies.
        block_size: Tokens in a block of the cache.
        step: Tokens processed at a time.
        spares: Whether rows that do not attend to a not-a-number must be spared it,
            which a weight of 0 does not do.
        ahead: Whether the blocks of a step are looked up in the step before, so that
            its keys are fetched without waiting for them.

    Returns:
        The new state.
    """
    largest, total, sums = state
    if ahead:
        following = _look_up(table, begin + tl.arange(0, step), end, block_size)
    for start in range(begin, end, step):
        tokens = start + tl.arange(0, step)
        exists = tokens < end
        if ahead:
            blocks = following
            following = _look_up(table, tokens + step, end, block_size)
        else:
            blocks = _look_up(table, tokens, end, block_size)
        offsets = tokens % block_size
        key_tile = _load_keys(keys, blocks, offsets, exists, query.shape[1], masked)
        scores = _scores(query, key_tile, tokens, positions, scoring)
        if masked:
            seen = exists[None, :] & (tokens[None, :] <= positions[:, None])
            if windowed:
                seen = seen & (tokens[None, :] > positions[:, None] - scoring.window)
            scores = tl.where(seen, scores, float("-inf"))
        value_tile = _load_values(
            values, blocks, offsets, exists, sums.shape[1], masked
        )
        if masked and spares:
            is_none = value_tile != value_tile  # noqa: PLR0124
            is_broken = tl.max(is_none.to(tl.int32), 1) > 0
            scores = tl.where(seen & is_broken[None, :], float("nan"), scores)
            value_tile = tl.where(is_none, 0.0, value_tile).to(value_tile.dtype)
        largest, total, sums = _folded(largest, total, sums, scores, value_tile)
    return SoftmaxState(largest, total, sums)


@kernel
def _look_up(
    table: tl.tensor, tokens: tl.tensor, end: tl.tensor, block_size: tl.constexpr
) -> tl.tensor:
    """Returns the blocks of tokens; 0 from `end` on."""
    at = tokens.to(tl.uint32) // block_size  # by a shift
    return tl.load(table + at, mask=tokens < end, other=0).to(tl.int64)


@kernel
def _load_keys(  # noqa: PLR0917 - a kernel takes no keywords
    keys: PagedHead,
    blocks: tl.tensor,
    offsets: tl.tensor,
    exists: tl.tensor,
    padded: tl.constexpr,
    masked: tl.constexpr,
) -> tl.tensor:
    """Returns the keys of one step, [padded width, step]; 0 where there are none."""
    dims = tl.arange(0, padded)
    mask = (dims < keys.width)[:, None]
    if masked:
        mask = exists[None, :] & mask
    at = blocks * keys.block + offsets * keys.token
    return tl.load(
        keys.start + at[None, :] + dims[:, None] * keys.dim, mask=mask, other=0.0
    )


@kernel
def _load_values(  # noqa: PLR0917 - a kernel takes no keywords
    values: PagedHead,
    blocks: tl.tensor,
    offsets: tl.tensor,
    exists: tl.tensor,
    padded: tl.constexpr,
    masked: tl.constexpr,
) -> tl.tensor:
    """Returns the values of one step, [step, padded width]; 0 where there are none."""
    dims = tl.arange(0, padded)
    mask = (dims < values.width)[None, :]
    if masked:
        mask = exists[:, None] & mask
    at = blocks * values.block + offsets * values.token
    return tl.load(
        values.start + at[:, None] + dims[None, :] * values.dim, mask=mask, other=0.0
    )


@kernel
def _scores(
    query: tl.tensor,
    keys: tl.tensor,
    tokens: tl.tensor,
    positions: tl.tensor,
    scoring: Scoring,
) -> tl.tensor:
    """Returns the scores [rows, step] of tokens [step], in powers of two."""
    scores = tl.dot(query, keys, input_precision="ieee") * scoring.inner
    if scoring.capped:
        # tanh by an exponential that cannot overflow
        power = tl.exp2(-2.0 * 1.4426950408889634 * tl.abs(scores))
        bent = (1.0 - power) / (1.0 + power)
        scores = tl.where(scores < 0, -bent, bent) * scoring.outer
    if scoring.sloped:
        distances = (tokens[None, :] - positions[:, None]).to(tl.float32)
        scores += scoring.slopes[:, None] * distances
    return scores


@kernel
def _folded(
    largest: tl.tensor,
    total: tl.tensor,
    sums: tl.tensor,
    scores: tl.tensor,
    values: tl.tensor,
) -> tl.tensor:
    """Returns the state with the scores [rows, step] and the values of one step."""
    peak = tl.maximum(largest, tl.max(scores, 1))
    # Before its first token a row has no finite maximum, and all weights are 0.
    shift = tl.where(peak == float("-inf"), 0.0, peak)
    weights = tl.exp2(scores - shift[:, None])
    kept = tl.exp2(largest - shift)
    total = total * kept + tl.sum(weights, 1)
    sums = tl.dot(
        weights.to(values.dtype),
        values,
        sums * kept[:, None],
        input_precision="ieee",
    )
    return peak, total, sums


@kernel
def load_rows(
    starts: tl.tensor, is_row: tl.tensor, width: tl.constexpr, padded: tl.constexpr
) -> tl.tensor:
    """Returns the numbers of rows, [rows, padded]; 0 behind `width` and for no row.

    Args:
        starts: [rows, 1]; pointers to the rows' first numbers.
        is_row: [rows]; whether there is such a row.
        width: Numbers of a row, which are next to each other.
        padded: A power of two that is at least as large.
    """
    dims = tl.arange(0, padded)
    mask = is_row[:, None] & (dims < width)[None, :]
    return tl.load(starts + dims[None, :], mask=mask, other=0.0)


@kernel
def store_rows(
    starts: tl.tensor, numbers: tl.tensor, is_row: tl.tensor, width: tl.constexpr
) -> None:
    """Writes [rows, padded] numbers to where `load_rows` would read them."""
    dims = tl.arange(0, numbers.shape[1])
    mask = is_row[:, None] & (dims < width)[None, :]
    tl.store(starts + dims[None, :], numbers.to(starts.dtype.element_ty), mask=mask)


@kernel
def averages(state: SoftmaxState) -> tl.tensor:
    """Returns the weighted averages of the values; 0 for rows without tokens."""
    return state.sums / tl.where(state.total > 0, state.total, 1.0)[:, None]


@kernel
def row_numbers(
    numbers: tl.tensor,
    heads: tl.tensor,
    is_row: tl.tensor,
    given: tl.constexpr,
    rest: tl.constexpr,
) -> tl.tensor:
    """Returns sinks or slopes of the rows' heads in powers of two, `rest` elsewhere."""
    found = tl.full(heads.shape, rest, tl.float32)
    if given:
        found = tl.load(numbers + heads, mask=is_row, other=rest)
        found = found * 1.4426950408889634
    return found


@kernel
def first_state(  # noqa: PLR0917 - a kernel takes no keywords
    sinks: tl.tensor,
    heads: tl.tensor,
    is_row: tl.tensor,
    is_first: tl.tensor,
    given: tl.constexpr,
    value_pad: tl.constexpr,
) -> SoftmaxState:
    """Returns the rows' state before the first token; it begins with sinks if `given`.

    Args:
        sinks: Of all heads.
        heads: [rows]; index of each row's head.
        is_row: [rows]; whether there is such a row.
        is_first: [rows] or one; whether its sink belongs to this state.
        given: Whether there are sinks.
        value_pad: Padded value width.
    """
    sink = row_numbers(sinks, heads, is_row, given, float("-inf"))
    largest = tl.full(sink.shape, float("-inf"), tl.float32)
    total = tl.zeros(sink.shape, tl.float32)
    if given:
        is_sink = is_first & (sink > float("-inf"))
        largest = tl.where(is_sink, sink, largest)
        total = tl.where(is_sink, 1.0, total)
    sums = tl.zeros([sink.shape[0], value_pad], tl.float32)
    return SoftmaxState(largest, total, sums)


def score_factors(scale: float, softcap: float | None) -> tuple[float, float]:
    """Returns `inner` and `outer` of `walk`, for scores in powers of two.

    Without a cap, scores are product · inner; with one, outer · tanh(product · inner).
    """
    if softcap is None:
        return scale * LOG2_E, 1.0
    return scale / softcap, softcap * LOG2_E


def step_of(keys: torch.Tensor, values: torch.Tensor) -> int:
    """Returns the tokens per step for which two stages fit into shared memory."""
    width = power_of_two(keys.shape[-1], 16) + power_of_two(values.shape[-1], 16)
    fitting = _STAGED_BYTES // (2 * width * keys.itemsize)
    return min(64, max(16, power_of_two(fitting // 2 + 1)))


def rows_aligned(values: torch.Tensor) -> torch.Tensor:
    """Makes each head contiguous."""
    return values if values.stride(-1) == 1 else values.contiguous()
