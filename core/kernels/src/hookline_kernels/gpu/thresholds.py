"""The logit below which top-k, top-p and min-p drop tokens, without sorting.

Logits are compared as whole numbers in the same order (their bits, with those of the
negative ones turned round), so that bisection ends at the very number, and equally
likely tokens stay together.
"""

from hookline_kernels.gpu.jit import kernel, tl

_LARGEST = tl.constexpr(2147483647)
_OF_MINUS_INFINITY = tl.constexpr(-2139095041)


@kernel
def ordered(numbers: tl.tensor) -> tl.tensor:
    """float32 as int32 in the same order; −0 equals 0, and no number is the largest."""
    bits = tl.where(numbers == 0, 0.0, numbers).to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & _LARGEST)
    is_number = (numbers <= 0) | (numbers > 0)
    return tl.where(is_number, order, _LARGEST)


@kernel
def number_of(order: tl.tensor) -> tl.tensor:
    """The float32 that `ordered` made this int32 of."""
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
    """Logits of some tokens less the largest, divided by the temperature; else −∞.

    Args:
        logits: A row.
        stride: From token to token.
        tokens: [tile].
        vocab_size: Behind it there are no tokens.
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
    """How many tokens are as likely as `floor` or likelier, and their weights' sum."""
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
    """The `ordered` number that a token's `likelihoods` must reach to be kept.

    Args:
        logits: A row.
        stride: From token to token.
        vocab_size: Of the row.
        peak: The row's largest logit.
        temperature: Above 0.
        top_k: Keeps so many; the vocabulary's size where it is off.
        top_p: Keeps the likeliest of those until their share reaches it; 1 is off.
        log_min_p: Keeps what is no less likely than the likeliest by more; −∞ is off.
        tile: Tokens taken at once.
    """
    low = tl.full([], _OF_MINUS_INFINITY, tl.int32)
    high = tl.where(top_k < vocab_size, 0, low)
    while low < high:  # for the largest number that top_k tokens reach
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
        # Of equals at the border so many count as make top_k.
        surplus = tl.maximum(count - top_k, 0).to(tl.float64)
        mass -= surplus * tl.exp(number_of(floor)).to(tl.float64)
        high = tl.full([], 0, tl.int32)
        while low < high:  # for the smallest number that less than the share exceeds
            middle = low + (high - low) // 2
            _, above = _count_and_mass(
                logits, stride, vocab_size, peak, temperature, middle + 1, tile
            )
            is_in = above < top_p.to(tl.float64) * mass
            high = tl.where(is_in, middle, high)
            low = tl.where(is_in, low, middle + 1)
        floor = low
    return tl.maximum(floor, ordered(log_min_p))
