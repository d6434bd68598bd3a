"""Rejection sampling of draft tokens, which preserves the target's distribution.

Leviathan et al. 2023 and Chen et al. 2023: a draft token is accepted with probability
min(1, target ÷ draft). Behind the first rejected one, a token is drawn from the excess
of the target's distribution over the draft's; if all are accepted, from the target's.
"""

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from hookline_kernels.drawing import invert_distribution

Int64 = npt.NDArray[np.int64]


class Verified(NamedTuple):
    """The result for B requests.

    Attributes:
        num_accepted: [B] int64, number of leading draft tokens that are accepted.
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
    """Verifies N draft tokens of B requests; the reference of the kernels.

    Args:
        draft_tokens: [N] integers, grouped by request.
        draft_starts: [B + 1] integers; index of each request's first draft token, then
            N. A request may have none.
        draft_probabilities: [N, vocabulary] float32 distributions that they were drawn
            from; None if each was certain.
        target_probabilities: [N + B, vocabulary] float32; for each request one row per
            draft token, and one behind the last.
        accept_points: [N] float32 or float64 in [0, 1), one per draft token.
        next_points: [B] float64 in [0, 1), one per request: where its next token lies
            in the cumulative distribution, in the order of the vocabulary.

    Returns:
        The number of accepted tokens, and the token behind them.
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


class DraftLayout:
    """Layout of S places of R requests that are verified by rejection sampling.

    A request's places are adjacent: one for each of its drafts, and one after the last.

    Attributes:
        firsts: [R] index of each request's first place.
        is_draft: [S] whether a place has a draft.
        starts: [R + 1] index of each request's first draft, and the number of drafts.
    """

    def __init__(self, rows: Int64) -> None:
        self.firsts: Int64 = np.flatnonzero(np.diff(rows, prepend=-1))
        self._lengths = np.diff(self.firsts, append=len(rows))
        self.is_draft = np.ones(len(rows), np.bool_)
        self.is_draft[self.firsts + self._lengths - 1] = False
        starts = np.append(self.firsts, len(rows))
        self.starts: Int64 = starts - np.arange(len(starts))

    def settle(
        self, drafts: Int64, num_accepted: Int64, following: Int64
    ) -> tuple[Int64, Int64]:
        """Returns the kept tokens of all requests.

        Args:
            drafts: All drafts.
            num_accepted: [R] number of accepted drafts.
            following: [R] the token after the accepted drafts.

        Returns:
            Indices into S, and the token at each.
        """
        place = np.arange(len(self.is_draft)) - np.repeat(self.firsts, self._lengths)
        last = np.repeat(num_accepted, self._lengths)
        tokens = np.zeros(len(place), np.int64)
        tokens[self.is_draft] = drafts
        tokens = np.where(place < last, tokens, np.repeat(following, self._lengths))
        settled = np.flatnonzero(place <= last)
        return settled, tokens[settled]
