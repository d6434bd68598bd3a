"""Rejection sampling of draft tokens: what is kept is distributed as the target's.

Leviathan et al. 2023 and Chen et al. 2023: a draft token is accepted with probability
min(1, target ÷ draft); after the first that is not, one token is drawn from the part of
the target's distribution that exceeds the draft's; after all were, one from the target.
"""

import itertools
from typing import NamedTuple

import torch

from hookline_kernels.inverting import invert_distribution


class Verified(NamedTuple):
    """Of B requests.

    Attributes:
        num_accepted: [B] int64, draft tokens that are kept, from the first on.
        next_tokens: [B] int64, the token behind them.
    """

    num_accepted: torch.Tensor
    next_tokens: torch.Tensor


def reject_reference(
    draft_tokens: torch.Tensor,
    draft_starts: torch.Tensor,
    draft_probabilities: torch.Tensor | None,
    target_probabilities: torch.Tensor,
    *,
    accept_points: torch.Tensor,
    next_points: torch.Tensor,
) -> Verified:
    """Verifies N draft tokens of B requests; the plain reference of the kernels.

    Args:
        draft_tokens: [N] integers, those of a request one after another.
        draft_starts: [B + 1] integers; a request's first draft token, and behind the
            last one's last. A request may have none.
        draft_probabilities: [N, vocabulary] float32, what each was drawn from; None
            where the proposer does not draw: each was certain.
        target_probabilities: [N + B, vocabulary] float32; of a request one row more
            than it has draft tokens: before each, and behind the last.
        accept_points: [N] float32 or float64 in [0, 1), one a draft token.
        next_points: [B] float64 in [0, 1), one a request; where in the cumulative
            distribution, in the order of the vocabulary, its next token lies.

    Returns:
        How many are kept, and the token behind them.
    """
    drafts = draft_probabilities
    if drafts is None:
        drafts = torch.zeros_like(target_probabilities[: len(draft_tokens)])
        drafts.scatter_(1, draft_tokens[:, None].long(), 1.0)
    starts = draft_starts.tolist()
    counts, weights = [], []
    for request, (start, end) in enumerate(itertools.pairwise(starts)):
        at = start
        while at < end:
            token = draft_tokens[at]
            share = target_probabilities[at + request, token].double()
            if accept_points[at].double() * drafts[at, token].double() >= share:
                break
            at += 1
        row = target_probabilities[at + request]
        excess = (row - drafts[at]).clamp(min=0) if at < end else row
        counts.append(at - start)
        weights.append(excess if bool(excess.any()) else row)
    accepted = torch.tensor(counts, device=next_points.device)
    return Verified(accepted, invert_distribution(torch.stack(weights), next_points))
