"""Finds the logit below which top-k, top-p and min-p drop tokens, without sorting.

Logits are compared as integers of the same order (their bits, with those of negative
ones inverted), so that bisection ends at the exact number, and ties stay together.
"""

from hookline_kernels.gpu.jit import kernel, tl

_LARGEST = tl.constexpr(2147483647)
_OF_MINUS_INFINITY = tl.constexpr(-2139095041)


@kernel
def ordered(numbers: tl.tensor) -> tl.tensor:
    """Maps float32 to int32 of the same order; −0 equals 0, NaN is the largest."""
    bits = tl.where(numbers == 0, 0.0, numbers).to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & _LARGEST)
    is_number = (numbers <= 0) | (numbers > 0)
    return tl.where(is_number, order, _LARGEST)


@kernel
def number_of(order: tl.tensor) -> tl.tensor:
    """Returns the number of an order: the inverse of `ordered`."""
    return (order ^ ((order >> 31) & _LARGEST)).to(tl.float32, bitcast=True)


@kernel
def likelihoods(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    stride: tl.tensor,
    tokens: tl.tensor,
    vocab_size: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
) -> tl.tensor:
    """Returns (logit − peak) ÷ temperature of some tokens; −∞ behind the last.

    Args:
        logits: A row.
        stride: Its stride.
        tokens: [tile].
        vocab_size: Number of tokens.
        peak: The row's largest logit.
        temperature: Above 0.
    """
    numbers = tl.load(
        logits + tokens.to(tl.int64) * stride,
        mask=tokens < vocab_size,
        other=float("-inf"),
    )
    return (numbers.to(tl.float32) - peak) / temperature


@kernel
def _count_and_mass(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    stride: tl.tensor,
    vocab_size: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    floor: tl.tensor,
    tile: tl.constexpr,
) -> tl.tensor:
    """Counts the tokens that reach `floor`, and sums their weights."""
    count = tl.zeros([tile], tl.int32)
    mass = tl.zeros([tile], tl.float32)
    for start in range(0, vocab_size, tile):
        tokens = start + tl.arange(0, tile)
        numbers = likelihoods(logits, stride, tokens, vocab_size, peak, temperature)
        is_in = (ordered(numbers) >= floor) & (tokens < vocab_size)
        count += is_in.to(tl.int32)
        mass += tl.where(is_in, tl.exp(numbers), 0.0)
    return tl.sum(count, 0), tl.sum(mass.to(tl.float64), 0)


@kernel
def likeliest(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    stride: tl.tensor,
    vocab_size: tl.tensor,
    peak: tl.tensor,
    temperature: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    log_min_p: tl.tensor,
    tile: tl.constexpr,
) -> tl.tensor:
    """Returns the `ordered` likelihood that a token must reach to be kept.

    Args:
        logits: A row.
        stride: Its stride.
        vocab_size: Number of tokens.
        peak: The row's largest logit.
        temperature: Above 0.
        top_k: Number of tokens to keep; the vocabulary's size turns it off.
        top_p: Keeps the most likely of those up to this share; 1 turns it off.
        log_min_p: Least logarithm relative to the most likely; −∞ turns it off.
        tile: Tokens taken at a time.
    """
    low = tl.full([], _OF_MINUS_INFINITY, tl.int32)
    high = tl.where(top_k < vocab_size, 0, low)
    while low < high:  # the largest number that top_k tokens reach
        middle = high - (high - low) // 2
        count, _ = _count_and_mass(
            logits, stride, vocab_size, peak, temperature, middle, tile
        )
        low = tl.where(count >= top_k, middle, low)
        high = tl.where(count > top_k, high, tl.where(count < top_k, middle - 1, low))
    floor = low
    if top_p < 1:
        count, mass = _count_and_mass(
            logits, stride, vocab_size, peak, temperature, floor, tile
        )
        # Of ties at the border, only as many count as make top_k.
        surplus = tl.maximum(count - top_k, 0).to(tl.float64)
        mass -= surplus * tl.exp(number_of(floor)).to(tl.float64)
        high = tl.full([], 0, tl.int32)
        while low < high:  # the smallest number that less than the share exceeds
            middle = low + (high - low) // 2
            _, above = _count_and_mass(
                logits, stride, vocab_size, peak, temperature, middle + 1, tile
            )
            is_in = above < top_p.to(tl.float64) * mass
            high = tl.where(is_in, middle, high)
            low = tl.where(is_in, low, middle + 1)
        floor = low
    return tl.maximum(floor, ordered(log_min_p))
