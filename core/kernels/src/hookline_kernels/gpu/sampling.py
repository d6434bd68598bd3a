"""Samples one token per row of logits, one program per row, without sorting."""

import torch

from hookline_kernels.gpu.inversion import chosen_token, invert_tile
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.thresholds import likeliest, likelihoods, ordered

_TILE = 4096


def argmax(logits: torch.Tensor) -> torch.Tensor:
    """Returns the first index of each row's largest logit; not-a-number is largest.

    Args:
        logits: [R, vocabulary], bfloat16, float16 or float32.

    Returns:
        [R] int64.
    """
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    if len(logits):
        _argmax_kernel[(len(logits),)](
            *(logits, *logits.stride(), logits.shape[1], tokens),
            tile=_tile(logits),
            num_warps=8,
        )
    return tokens


def draw(
    logits: torch.Tensor, temperatures: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """Returns the token at which each row's cumulative probability passes its point.

    Args:
        logits: [R, vocabulary], bfloat16, float16 or float32; −∞ is never drawn.
        temperatures: [R] float32, above 0.
        points: [R] float64 in [0, 1).

    Returns:
        [R] int64.
    """
    return _draw(logits, temperatures, points, None, None, None)


def draw_filtered(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    points: torch.Tensor,
    *,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Like `draw`, from the tokens that three filters keep; ties stay together.

    Args:
        logits: See `draw`.
        temperatures: See `draw`.
        points: See `draw`.
        top_k: [R] int64 above 0; the vocabulary's size turns it off.
        top_p: [R] float32 above 0, share of the tokens that top-k keeps; 1 turns it
            off.
        min_p: [R] float32, relative to the most likely token; 0 turns it off.

    Returns:
        [R] int64.
    """
    return _draw(logits, temperatures, points, top_k, top_p, min_p.log())


def _draw(  # noqa: PLR0917 - of this file's functions alone
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    points: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    log_min_p: torch.Tensor | None,
) -> torch.Tensor:
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    if len(logits):
        _draw_kernel[(len(logits),)](
            *(logits, *logits.stride(), logits.shape[1], temperatures, points),
            *(top_k, top_p, log_min_p, tokens),
            filters=top_k is not None,
            tile=_tile(logits),
            num_warps=8,
        )
    return tokens


def _tile(logits: torch.Tensor) -> int:
    return min(_TILE, power_of_two(logits.shape[1]))


@kernel
def _argmax_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    output: tl.tensor,
    tile: tl.constexpr,
) -> None:
    """Computes one row."""
    row = tl.program_id(0).to(tl.int64)
    best = tl.full([], -2147483648, tl.int32)
    token = tl.full([], 0, tl.int32)
    for start in range(0, vocab_size, tile):
        tokens = start + tl.arange(0, tile)
        exists = tokens < vocab_size
        at = logits + row * row_stride + tokens.to(tl.int64) * token_stride
        orders = ordered(tl.load(at, mask=exists, other=0.0).to(tl.float32))
        peak = tl.max(tl.where(exists, orders, -2147483648), 0)
        is_best = exists & (orders == peak)
        first = tl.min(tl.where(is_best, tokens, 2147483647), 0)
        token = tl.where(peak > best, first, token)
        best = tl.maximum(peak, best)
    tl.store(output + row, token.to(tl.int64))


@kernel
def _peak(
    logits: tl.tensor, stride: tl.tensor, vocab_size: tl.tensor, tile: tl.constexpr
) -> tl.tensor:
    """Returns the largest logit of a row."""
    peaks = tl.full([tile], float("-inf"), tl.float32)
    for start in range(0, vocab_size, tile):
        tokens = start + tl.arange(0, tile)
        at = logits + tokens.to(tl.int64) * stride
        numbers = tl.load(at, mask=tokens < vocab_size, other=float("-inf"))
        peaks = tl.maximum(peaks, numbers.to(tl.float32))
    return tl.max(peaks, 0)


@kernel
def _weights(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    stride: tl.tensor,
    tokens: tl.tensor,
    vocab_size: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    floor: tl.tensor,
) -> tl.tensor:
    """Returns unnormalised probabilities of some tokens; 0 below the floor."""
    numbers = likelihoods(logits, stride, tokens, vocab_size, peak, temperature)
    return tl.where(ordered(numbers) >= floor, tl.exp(numbers), 0.0)


@kernel
def _draw_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    temperatures: tl.tensor,
    points: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    log_min_ps: tl.tensor,
    output: tl.tensor,
    filters: tl.constexpr,
    tile: tl.constexpr,
) -> None:
    """Computes one row: its peak, floor and sum, then its token."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    temperature = tl.load(temperatures + row)
    peak = _peak(logits, token_stride, vocab_size, tile)
    floor = tl.full([], -2147483648, tl.int32)
    if filters:
        floor = likeliest(
            logits,
            token_stride,
            vocab_size,
            peak,
            temperature,
            tl.load(top_ks + row),
            tl.load(top_ps + row),
            tl.load(log_min_ps + row),
            tile,
        )
    total = tl.full([], 0, tl.float64)
    for start in range(0, vocab_size, tile):
        tokens = start + tl.arange(0, tile)
        weights = _weights(
            logits, token_stride, tokens, vocab_size, peak, temperature, floor
        )
        total += tl.sum(weights.to(tl.float64), 0)
    target = tl.load(points + row).to(tl.float64) * total
    running = tl.full([], 0, tl.float64)
    found = tl.full([], 2147483647, tl.int32)
    last = tl.full([], -1, tl.int32)
    for start in range(0, vocab_size, tile):
        tokens = start + tl.arange(0, tile)
        weights = _weights(
            logits, token_stride, tokens, vocab_size, peak, temperature, floor
        )
        running, found, last = invert_tile(
            weights, tokens, target, running, found, last
        )
    tl.store(output + row, chosen_token(found, last))
