"""Selects which sampled tokens of a step are kept, for requests with drafts.

A token is sampled after a request's newest token and after each of its drafts. The
first one is always kept. The one after a draft is kept if the draft equals the token
sampled before it; from the first draft that differs on, tokens are dropped.

So a deterministic draft is accepted as often as the target samples it, and the token
sampled instead has the target's distribution without the draft: rejection sampling
(Leviathan et al. 2023) of a one-hot distribution, with the position's own random
number. For drafts with probabilities, the sampler has already replaced the sampled
tokens by the outcome of rejection sampling.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verified:
    """Which of S sampled tokens of R requests are kept; a request's are adjacent.

    Attributes:
        is_kept: [S] bool.
        firsts: [R] index of each request's first token.
        counts: [R] number of kept tokens: the accepted drafts, and one more.
    """

    is_kept: npt.NDArray[np.bool_]
    firsts: Int64
    counts: Int64


def verify(rows: Int64, sampled: Int64, drafts: Int64) -> Verified:
    """Compares drafts with the tokens sampled in their place.

    Args:
        rows: [S] row of the request of each token; a request's are adjacent.
        sampled: [S] sampled tokens.
        drafts: [S] the draft at each place; a request's last place is ignored.
    """
    firsts = first_of_each(rows)
    lengths = np.diff(firsts, append=len(rows))
    index = np.arange(len(rows))
    is_last = np.zeros(len(rows), np.bool_)
    is_last[firsts + lengths - 1] = True
    ends = np.where(is_last | (sampled != drafts), index, len(rows))
    last_kept = np.minimum.reduceat(ends, firsts)
    return Verified(
        is_kept=index <= np.repeat(last_kept, lengths),
        firsts=firsts,
        counts=last_kept - firsts + 1,
    )


def first_of_each(rows: Int64) -> Int64:
    """Returns [R] the start of each run of equal rows; `rows` must not be empty."""
    return np.flatnonzero(np.diff(rows, prepend=-1))
