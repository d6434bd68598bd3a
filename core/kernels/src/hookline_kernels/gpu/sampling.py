"""Samples one token per row of logits, several programs per row, without sorting.

A row's parts are as long whatever the number of rows, and are merged in the order of
the vocabulary: the same point draws the same token in every batch.
"""

import torch

from hookline_kernels.gpu.inversion import chosen_token, invert_tile
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.ordering import (
    best_of,
    is_finite,
    key,
    likelihoods,
    load_part,
    number_of,
    ordered,
    peak_of,
    token_of,
)
from hookline_kernels.gpu.thresholds import find_floors

_PART_SIZE = 4096
"""Tokens that a program takes, a power of two."""


def argmax(logits: torch.Tensor) -> torch.Tensor:
    """Returns the first index of each row's largest logit.

    Args:
        logits: [R, vocabulary], bfloat16, float16 or float32.

    Returns:
        [R] int64; −1 for rows without a finite maximum, or with a not-a-number.
    """
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    if len(logits):
        keys = _best_of_parts(logits)
        parts = keys.shape[1]
        _argmax_kernel[len(logits),](
            *(keys, parts, tokens), slots=power_of_two(parts), num_warps=1
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
        [R] int64; −1 as `argmax` does.
    """
    return _draw(logits, temperatures, points)


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
        [R] int64; −1 as `argmax` does.
    """
    if not len(logits):
        return _draw(logits, temperatures, points)
    keys = _best_of_parts(logits)
    floors = find_floors(logits, keys, temperatures, top_k, top_p, _part_size(logits))
    return _draw(logits, temperatures, points, (keys, floors, min_p.log()))


def _part_size(logits: torch.Tensor) -> int:
    return min(_PART_SIZE, power_of_two(logits.shape[1]))


def _num_parts(logits: torch.Tensor) -> int:
    return -(-logits.shape[1] // _part_size(logits))


def _best_of_parts(logits: torch.Tensor) -> torch.Tensor:
    """Returns the largest `key` of each part: [R, parts] int64."""
    shape = (len(logits), _num_parts(logits))
    keys = torch.empty(shape, dtype=torch.int64, device=logits.device)
    _best_kernel[shape](
        *(logits, *logits.stride(), logits.shape[1], keys),
        size=_part_size(logits),
        num_warps=8,
    )
    return keys


def _draw(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    points: torch.Tensor,
    filters: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Draws from all tokens, or with keys, floors and logarithms of min-p."""
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    if not len(logits):
        return tokens
    shape = (len(logits), _num_parts(logits))
    peaks = torch.empty(shape, dtype=torch.float32, device=logits.device)
    sums = torch.empty(shape, dtype=torch.float64, device=logits.device)
    keys, floors, log_min_p = filters or (None, None, None)
    row = (logits, *logits.stride(), logits.shape[1], temperatures)
    sums_of_parts = (floors, log_min_p, peaks, sums, shape[1])
    constants = {
        "filters": filters is not None,
        "size": _part_size(logits),
        "slots": power_of_two(shape[1]),
        "num_warps": 8,
    }
    _sum_kernel[shape](*row, *sums_of_parts, keys, **constants)
    _draw_kernel[len(logits),](*row, *sums_of_parts, points, tokens, **constants)
    return tokens


@kernel
def _best_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    keys: tl.tensor,
    size: tl.constexpr,
) -> None:
    """Finds the largest logit of one part, and its first token."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    numbers, tokens = load_part(
        logits, row_stride, token_stride, vocab_size, row, part, size
    )
    best = tl.max(key(ordered(numbers), tokens), 0)
    tl.store(keys + row * tl.num_programs(1) + part, best)


@kernel
def _argmax_kernel(
    keys: tl.tensor, num_parts: tl.tensor, output: tl.tensor, slots: tl.constexpr
) -> None:
    """Merges one row's parts."""
    row = tl.program_id(0)
    best = best_of(keys, row, num_parts, slots)
    tl.store(output + row, tl.where(is_finite(peak_of(best)), token_of(best), -1))


@kernel
def _weights(  # noqa: PLR0917 - a kernel takes no keywords
    numbers: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    row: tl.tensor,
    floors: tl.tensor,
    log_min_ps: tl.tensor,
    filters: tl.constexpr,
) -> tl.tensor:
    """Returns the probabilities of some logits relative to the peak's, or 0."""
    found = likelihoods(numbers, peak, temperature)
    weights = tl.exp(found)
    if filters:
        floor = tl.load(floors + row)
        floor = tl.maximum(floor, ordered(tl.load(log_min_ps + row)))
        weights = tl.where(ordered(found) >= floor, weights, 0.0)
    return weights


@kernel
def _sum_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    temperatures: tl.tensor,
    floors: tl.tensor,
    log_min_ps: tl.tensor,
    peaks: tl.tensor,
    sums: tl.tensor,
    num_parts: tl.tensor,
    keys: tl.tensor,
    filters: tl.constexpr,
    size: tl.constexpr,
    slots: tl.constexpr,
) -> None:
    """Sums one part's weights, relative to its own peak or, for floors, the row's."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    numbers, _ = load_part(
        logits, row_stride, token_stride, vocab_size, row, part, size
    )
    if filters:
        peak = peak_of(best_of(keys, row, num_parts, slots))
    else:
        peak = number_of(tl.max(ordered(numbers), 0))
    temperature = tl.load(temperatures + row)
    weights = _weights(numbers, peak, temperature, row, floors, log_min_ps, filters)
    at = row * num_parts + part
    tl.store(peaks + at, peak)
    tl.store(sums + at, tl.sum(weights.to(tl.float64), 0))


@kernel
def _draw_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    temperatures: tl.tensor,
    floors: tl.tensor,
    log_min_ps: tl.tensor,
    peaks: tl.tensor,
    sums: tl.tensor,
    num_parts: tl.tensor,
    points: tl.tensor,
    output: tl.tensor,
    filters: tl.constexpr,
    size: tl.constexpr,
    slots: tl.constexpr,
) -> None:
    """Draws one row's part, then a token of that part."""
    row = tl.program_id(0).to(tl.int64)
    temperature = tl.load(temperatures + row)
    zero = tl.full([], 0, tl.float64)
    none, last = tl.full([], 2147483647, tl.int32), tl.full([], -1, tl.int32)

    parts = tl.arange(0, slots)
    at, exists = row * num_parts + parts, parts < num_parts
    peaks_of_parts = tl.load(peaks + at, mask=exists, other=float("-inf"))
    peak = number_of(tl.max(ordered(peaks_of_parts), 0))
    is_sound = is_finite(peak)
    scales = tl.exp(likelihoods(peaks_of_parts, peak, temperature)).to(tl.float64)
    shares = tl.load(sums + at, mask=exists, other=0.0) * scales
    target = tl.load(points + row).to(tl.float64) * tl.sum(shares, 0)
    _, found, last_part = invert_tile(shares, parts, target, zero, none, last)
    part = chosen_token(found, last_part).to(tl.int32)

    is_part = parts == part
    scale = tl.sum(tl.where(is_part, scales, 0.0), 0)
    target -= tl.sum(tl.where(parts < part, shares, 0.0), 0)
    target = tl.maximum(target, 0.0) / tl.where(scale > 0, scale, 1.0)
    own_peak = tl.where(is_part, peaks_of_parts, float("-inf"))
    peak = number_of(tl.max(ordered(own_peak), 0))
    numbers, tokens = load_part(
        logits, row_stride, token_stride, vocab_size, row, part, size
    )
    weights = _weights(numbers, peak, temperature, row, floors, log_min_ps, filters)
    _, found, last = invert_tile(weights, tokens, target, zero, none, last)
    tl.store(output + row, tl.where(is_sound, chosen_token(found, last), -1))
