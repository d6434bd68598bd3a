"""Samples from distributions by inversion, in plain torch."""

import torch


def invert_distribution(
    probabilities: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """Returns the token at which each cumulative distribution passes its point.

    Args:
        probabilities: [R, vocabulary]; a token with probability 0 is never returned.
        points: [R] in [0, 1).
    """
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    totals = cumulative[:, -1:].contiguous()
    found = torch.searchsorted(cumulative, points[:, None] * totals, right=True)
    # A point may round up to the total: take the last possible token.
    last = torch.searchsorted(cumulative, totals)
    return torch.minimum(found, last)[:, 0]
