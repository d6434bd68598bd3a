"""Inverts a cumulative distribution in the order of the vocabulary, tile by tile."""

from hookline_kernels.gpu.jit import kernel, tl


@kernel
def invert_tile(  # noqa: PLR0917 - a kernel takes no keywords
    weights: tl.tensor,
    tokens: tl.tensor,
    target: tl.tensor,
    running: tl.tensor,
    found: tl.tensor,
    last: tl.tensor,
) -> tl.tensor:
    """Looks for the token at which the running sum of the weights passes the target.

    Tiles come in order. Sums are of float64, so that a vocabulary's worth of rounding
    moves no border by more than the weights' own.

    Args:
        weights: [tile] float32, none below 0.
        tokens: [tile] int32, which tokens they are of.
        target: float64, in [0, the sum of all weights).
        running: float64, the sum of all tiles before; 0 at first.
        found: int32, the token if a tile before had it, else a larger number.
        last: int32, the last token so far with a weight; −1 at first.

    Returns:
        `running`, `found` and `last` after this tile.
    """
    wide = weights.to(tl.float64)
    after = running + tl.sum(wide, 0)
    last = tl.maximum(last, tl.max(tl.where(weights > 0, tokens, -1), 0))
    if (running <= target) & (after > target):
        passed = (running + tl.cumsum(wide, 0) > target) & (weights > 0)
        found = tl.minimum(found, tl.min(tl.where(passed, tokens, 2147483647), 0))
    return after, found, last


@kernel
def chosen_token(found: tl.tensor, last: tl.tensor) -> tl.tensor:
    """A target that rounding put behind all tokens belongs to the last possible one."""
    return tl.minimum(found, tl.maximum(last, 0)).to(tl.int64)
