"""Searches a list of orders for the one that a number or a mass of them reaches.

One program scans the list several times: it is short, unless a filter drops next to
nothing or the likelihoods are much alike.
"""

from hookline_kernels.gpu.jit import kernel, tl
from hookline_kernels.gpu.ordering import LEAST, number_of

_STAGES = tl.constexpr(4)
"""Tiles of candidates loaded ahead, the current one included."""
_SPLITS = tl.constexpr(8)
"""Orders at which a search divides its range at a time."""


@kernel
def _tile_of(
    candidates: tl.tensor, length: tl.tensor, start: tl.tensor, tile: tl.constexpr
) -> tl.tensor:
    """Returns the candidates from `start` on; below all orders behind the last."""
    at = start + tl.arange(0, tile)
    return tl.load(candidates + at, mask=at < length, other=LEAST - 1)


@kernel
def _occupied(
    candidates: tl.tensor,
    length: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    tile: tl.constexpr,
) -> tl.tensor:
    """Narrows a range of orders to the candidates in it."""
    least = tl.zeros([tile], tl.int32) + high
    most = tl.zeros([tile], tl.int32) + low
    for start in tl.range(0, length, tile, num_stages=_STAGES):
        orders = _tile_of(candidates, length, start, tile)
        is_in = (orders >= low) & (orders < high)
        least = tl.minimum(least, tl.where(is_in, orders, high))
        most = tl.maximum(most, tl.where(is_in, orders, low))
    return tl.min(least, 0), tl.max(most, 0) + 1


@kernel
def search(  # noqa: PLR0917 - a kernel takes no keywords
    candidates: tl.tensor,
    length: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    beyond: tl.tensor,
    needed: tl.tensor,
    weighs: tl.constexpr,
    tile: tl.constexpr,
) -> tl.tensor:
    """Returns the largest order such that the tokens that reach it are enough.

    Args:
        candidates: Orders of at least all tokens between `low` and `high`.
        length: Number of candidates.
        low: An order that enough tokens reach.
        high: An order that too few tokens reach.
        beyond: Number or mass of those, float64.
        needed: Number or mass of enough tokens, float64.
        weighs: Whether they are masses.
        tile: Candidates taken at a time.
    """
    low, high = _occupied(candidates, length, low, high, tile)
    while high - low > 1:
        step = (high - low) // (_SPLITS + 1) + 1
        levels = tl.minimum(low + (1 + tl.arange(0, _SPLITS)) * step, high)
        sums = tl.zeros([_SPLITS, tile], tl.float64)
        for start in tl.range(0, length, tile, num_stages=_STAGES):
            orders = _tile_of(candidates, length, start, tile)
            is_in = (orders[None, :] >= levels[:, None]) & (orders < high)[None, :]
            weights = tl.full([tile], 1, tl.float64)
            if weighs:
                weights = tl.exp(number_of(orders)).to(tl.float64)
            sums += tl.where(is_in, weights[None, :], 0.0)
        amounts = beyond + tl.sum(sums, 1)
        is_enough = amounts >= needed
        low = tl.max(tl.where(is_enough, levels, low), 0)
        high = tl.min(tl.where(is_enough, high, levels), 0)
        beyond = tl.max(tl.where(is_enough, beyond, amounts), 0)
        low, high = _occupied(candidates, length, low, high, tile)
    return low


@kernel
def count_and_mass(
    candidates: tl.tensor,
    length: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    tile: tl.constexpr,
) -> tl.tensor:
    """Counts the candidates in a range of orders, and sums their weights."""
    count = tl.zeros([tile], tl.int32)
    mass = tl.zeros([tile], tl.float64)
    for start in tl.range(0, length, tile, num_stages=_STAGES):
        orders = _tile_of(candidates, length, start, tile)
        is_in = (orders >= low) & (orders < high)
        weights = tl.exp(number_of(orders)).to(tl.float64)
        count += is_in.to(tl.int32)
        mass += tl.where(is_in, weights, 0.0)
    return tl.sum(count, 0), tl.sum(mass, 0)
