"""Puts tokens that only the device knows into the inputs of the next step."""

import torch

from hookline_kernels.gpu.jit import kernel, tl

_TILE = 1024


def take_kept(token_ids: torch.Tensor, kept: torch.Tensor) -> None:
    """Replaces −1 − i by number i of the kept tokens.

    Args:
        token_ids: [T] int64, contiguous; changed in place.
        kept: [S] int64.
    """
    count = len(token_ids)
    _take_kept_kernel[(-(-count // _TILE),)](token_ids, kept, count, tile=_TILE)


@kernel
def _take_kept_kernel(
    token_ids: tl.tensor, kept: tl.tensor, count: tl.tensor, tile: tl.constexpr
) -> None:
    """Replaces those of one tile."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tokens = tl.load(token_ids + at, mask=at < count, other=0)
    is_kept = tokens < 0
    known = tl.load(kept - 1 - tokens, mask=is_kept, other=0)
    tl.store(token_ids + at, known, mask=is_kept)
