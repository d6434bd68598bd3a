"""Compares logits as integers, and finds the largest of a row's parts.

A number's order is its bits, with those of negative numbers inverted: searches among
orders end at the exact number, and ties stay together.
"""

from hookline_kernels.gpu.jit import kernel, tl

LARGEST = tl.constexpr(2147483647)
LEAST = tl.constexpr(-2139095040)
"""Order of the least finite number."""


@kernel
def ordered(numbers: tl.tensor) -> tl.tensor:
    """Maps float32 to int32 of the same order; −0 equals 0, NaN is the largest."""
    bits = tl.where(numbers == 0, 0.0, numbers).to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & LARGEST)
    is_number = (numbers <= 0) | (numbers > 0)
    return tl.where(is_number, order, LARGEST)


@kernel
def number_of(order: tl.tensor) -> tl.tensor:
    """Returns the number of an order: the inverse of `ordered`."""
    return (order ^ ((order >> 31) & LARGEST)).to(tl.float32, bitcast=True)


@kernel
def load_part(  # noqa: PLR0917 - a kernel takes no keywords
    logits: tl.tensor,
    row_stride: tl.tensor,
    token_stride: tl.tensor,
    vocab_size: tl.tensor,
    row: tl.tensor,
    part: tl.tensor,
    size: tl.constexpr,
) -> tl.tensor:
    """Returns a part's logits as float32, −∞ behind the last, and its tokens."""
    tokens = part * size + tl.arange(0, size)
    numbers = tl.load(
        logits + row.to(tl.int64) * row_stride + tokens.to(tl.int64) * token_stride,
        mask=tokens < vocab_size,
        other=float("-inf"),
    )
    return numbers.to(tl.float32), tokens


@kernel
def best_of(
    keys: tl.tensor, row: tl.tensor, num_parts: tl.tensor, slots: tl.constexpr
) -> tl.tensor:
    """Returns the largest of a row's keys; see `key`."""
    parts = tl.arange(0, slots)
    at = keys + row.to(tl.int64) * num_parts + parts
    found = tl.load(at, mask=parts < num_parts, other=-9223372036854775807)
    return tl.max(found, 0)


@kernel
def key(orders: tl.tensor, tokens: tl.tensor) -> tl.tensor:
    """Returns int64 that are larger for larger orders, then for earlier tokens."""
    return orders.to(tl.int64) * 4294967296 + (tokens ^ LARGEST).to(tl.int64)


@kernel
def token_of(best: tl.tensor) -> tl.tensor:
    """Returns the token of a key."""
    return (best & LARGEST) ^ LARGEST


@kernel
def peak_of(best: tl.tensor) -> tl.tensor:
    """Returns the number of a key."""
    return number_of((best >> 32).to(tl.int32))


@kernel
def is_finite(number: tl.tensor) -> tl.tensor:
    """Whether it is a number, and neither infinity."""
    return (number > float("-inf")) & (number < float("inf"))


@kernel
def likelihoods(
    numbers: tl.tensor, peak: tl.tensor, temperature: tl.tensor
) -> tl.tensor:
    """Returns (logit − peak) ÷ temperature; −∞ where that is not a number.

    Args:
        numbers: Logits.
        peak: The largest of them; whatever it is, there is none if it is not finite.
        temperature: Above 0.
    """
    shift = tl.where(is_finite(peak), peak, 0.0)
    differences = (numbers - shift) / temperature
    return tl.where(differences <= 0, differences, float("-inf"))
