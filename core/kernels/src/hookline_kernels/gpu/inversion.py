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
    """Finds the token at which the cumulative weights pass the target.

    Tiles come in order. Sums are float64, so that accumulated rounding stays below the
    weights' own.

    Args:
        weights: [tile] float32, none below 0.
        tokens: [tile] int32 token ids of the weights.
        target: float64, in [0, the sum of all weights).
        running: float64 sum of all earlier tiles; initially 0.
        found: int32 token if an earlier tile had it, else a larger number.
        last: int32, last token so far with a positive weight; initially −1.

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
    """Returns the last possible token if rounding puts the target behind all."""
    return tl.minimum(found, tl.maximum(last, 0)).to(tl.int64)
