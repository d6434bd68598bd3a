"""Plain torch references of the GPU kernels that have no shared reference.

Attention, the other layers, argmax, unfiltered drawing and rejection have theirs
outside of this package, because other devices use them, too.
"""

import torch

from hookline_kernels.sampling import draw_reference

NEGATIVE_INFINITY = float("-inf")


def kept_reference(
    logits: torch.Tensor, top_k: int, top_p: float, min_p: float
) -> torch.Tensor:
    """Returns the tokens of one row that the filters keep, [vocabulary] bool.

    Args:
        logits: [vocabulary] float32, divided by the temperature.
        top_k: At most the vocabulary's size.
        top_p: 1 turns it off.
        min_p: 0 turns it off.
    """
    floor = NEGATIVE_INFINITY
    best = logits.sort(descending=True).values[:top_k]
    if top_k < len(logits):
        floor = float(best[-1])
    if top_p < 1:
        shares = best.double().softmax(-1)
        before = shares.cumsum(-1) - shares
        floor = max(floor, float(best[before < top_p][-1]))
    if min_p > 0:
        floor = max(floor, float(best[0] + torch.tensor(min_p).log()))
    return logits >= floor


def draw_filtered_reference(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    points: torch.Tensor,
    *,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Returns [R] tokens; see `sampling.draw_filtered`."""
    wide = logits.float()
    wide = (wide - wide.amax(-1, keepdim=True)) / temperatures[:, None]
    rows = zip(wide, top_k.tolist(), top_p.tolist(), min_p.tolist(), strict=True)
    kept = torch.stack([kept_reference(*row) for row in rows])
    ones = torch.ones_like(temperatures)
    return draw_reference(wide.masked_fill(~kept, NEGATIVE_INFINITY), ones, points)
