"""Folds a span of a sequence's paged keys and values into running softmax states.

The states are those of FlashAttention (Dao et al. 2022; Milakov and Gimelshein 2018):
for each row the maximum score, the sum of the weights and the weighted sum of the
values, both relative to it. Scores are in powers of two, which the hardware computes.
"""

import math

import torch

from hookline_kernels.gpu.jit import kernel, power_of_two, tl

LOG2_E = math.log2(math.e)
_STAGED_BYTES = 1 << 16
"""Bytes of keys and values that two stages keep in shared memory."""


@kernel
def walk(  # noqa: PLR0917 - a kernel takes no keywords
    query: tl.tensor,
    largest: tl.tensor,
    total: tl.tensor,
    sums: tl.tensor,
    positions: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    table: tl.tensor,
    keys: tl.tensor,
    key_block: tl.tensor,
    key_token: tl.tensor,
    key_dim: tl.tensor,
    values: tl.tensor,
    value_block: tl.tensor,
    value_token: tl.tensor,
    value_dim: tl.tensor,
    window: tl.tensor,
    inner: tl.tensor,
    outer: tl.tensor,
    slopes: tl.tensor,
    masked: tl.constexpr,
    windowed: tl.constexpr,
    capped: tl.constexpr,
    sloped: tl.constexpr,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    block_size: tl.constexpr,
    step: tl.constexpr,
) -> tl.tensor:
    """Processes tokens `begin` … `end` − 1 of one request and one KV head.

    Args:
        query: [rows, padded key width] of the keys' dtype.
        largest: [rows] float32, of the state.
        total: [rows] float32, of the state.
        sums: [rows, padded value width] float32, of the state.
        positions: [rows]; a row attends to no token behind its position.
        begin: First token.
        end: Behind the last token.
        table: The request's blocks.
        keys: The head's keys; then their strides.
        key_block: Stride of blocks.
        key_token: Stride of tokens.
        key_dim: Stride of numbers.
        values: The head's values; then their strides.
        value_block: Stride of blocks.
        value_token: Stride of tokens.
        value_dim: Stride of numbers.
        window: Tokens that a row attends to, the one at its position included.
        inner: Factor of the products; see `score_factors`.
        outer: Factor of the capped scores.
        slopes: [rows] float32, of `row_numbers`.
        masked: Whether a row does not attend to all of the tokens, or `end` − `begin`
            is not a multiple of `step`.
        windowed: Whether `window` applies.
        capped: Whether the soft cap applies.
        sloped: Whether the slopes apply.
        key_width: Width of a key.
        value_width: Width of a value.
        block_size: Tokens in a block of the cache.
        step: Tokens processed at a time.

    Returns:
        The new state: largest, total and sums.
    """
    key_pad: tl.constexpr = query.shape[1]
    value_pad: tl.constexpr = sums.shape[1]
    key_dims = tl.arange(0, key_pad)
    value_dims = tl.arange(0, value_pad)
    for start in range(begin, end, step):
        tokens = start + tl.arange(0, step)
        exists = tokens < end
        blocks = tl.load(table + tokens // block_size, mask=exists, other=0)
        blocks = blocks.to(tl.int64)
        offsets = tokens % block_size
        key_at = blocks * key_block + offsets * key_token
        key_tile = tl.load(
            keys + key_at[None, :] + key_dims[:, None] * key_dim,
            mask=exists[None, :] & (key_dims < key_width)[:, None],
            other=0.0,
        )
        scores = tl.dot(query, key_tile, input_precision="ieee") * inner
        if capped:
            # tanh by an exponential that cannot overflow
            power = tl.exp2(-2.0 * 1.4426950408889634 * tl.abs(scores))
            bent = (1.0 - power) / (1.0 + power)
            scores = tl.where(scores < 0, -bent, bent) * outer
        if sloped:
            distances = (tokens[None, :] - positions[:, None]).to(tl.float32)
            scores += slopes[:, None] * distances
        if masked:
            seen = exists[None, :] & (tokens[None, :] <= positions[:, None])
            if windowed:
                seen = seen & (tokens[None, :] > positions[:, None] - window)
            scores = tl.where(seen, scores, float("-inf"))
        value_at = blocks * value_block + offsets * value_token
        value_tile = tl.load(
            values + value_at[:, None] + value_dims[None, :] * value_dim,
            mask=exists[:, None] & (value_dims < value_width)[None, :],
            other=0.0,
        )
        peak = tl.maximum(largest, tl.max(scores, 1))
        # Before its first token a row has no finite maximum, and all weights are 0.
        shift = tl.where(peak == float("-inf"), 0.0, peak)
        weights = tl.exp2(scores - shift[:, None])
        kept = tl.exp2(largest - shift)
        total = total * kept + tl.sum(weights, 1)
        sums = tl.dot(
            weights.to(value_tile.dtype),
            value_tile,
            sums * kept[:, None],
            input_precision="ieee",
        )
        largest = peak
    return largest, total, sums


@kernel
def averages(total: tl.tensor, sums: tl.tensor) -> tl.tensor:
    """Returns the weighted averages of the values; 0 for rows without tokens."""
    return sums / tl.where(total > 0, total, 1.0)[:, None]


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
def first_state(
    sinks: tl.tensor, is_first: tl.tensor, given: tl.constexpr
) -> tl.tensor:
    """Returns the maximum and the sum of a state that begins with a sink, if given."""
    largest = tl.full(sinks.shape, float("-inf"), tl.float32)
    total = tl.zeros(sinks.shape, tl.float32)
    if given:
        is_sink = is_first & (sinks > float("-inf"))
        largest = tl.where(is_sink, sinks, largest)
        total = tl.where(is_sink, 1.0, total)
    return largest, total


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
