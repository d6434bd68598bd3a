"""Which of a step's sampled tokens are kept, where requests had drafts.

A token is sampled behind a request's newest token and behind each of its drafts. The
first is right whatever the drafts are. The one behind a draft is right if the draft is
what was sampled before it; from the first draft on that is not, tokens are dropped.

So a draft that the proposer was certain of is accepted as often as the target samples
it, and what is sampled instead is distributed as the target is without it: this is
rejection sampling (Leviathan et al. 2023) of a one-hot distribution, with the random
number that the position has anyway. For drafts with probabilities the sampler puts the
outcome of rejection sampling in the place of what it sampled.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verified:
    """Of S sampled tokens of R requests, those of a request one after another.

    Attributes:
        is_kept: [S].
        firsts: [R] index of each request's first.
        counts: [R] how many of them are kept: its accepted drafts, and one more.
    """

    is_kept: npt.NDArray[np.bool_]
    firsts: Int64
    counts: Int64


def verify(rows: Int64, sampled: Int64, drafts: Int64) -> Verified:
    """Compares drafts with what was sampled in their place.

    Args:
        rows: [S] whose each is; those of a request are adjacent.
        sampled: [S].
        drafts: [S] the draft in each one's place; a request's last has none, and
            whatever stands there is not looked at.
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
    """[R] where each run of equal rows begins; there must be one."""
    return np.flatnonzero(np.diff(rows, prepend=-1))


class DraftLayout:
    """How S sequences of R requests lie that are verified by rejection sampling.

    Those of a request are adjacent: one in the place of each of its drafts, and one
    behind the last.

    Attributes:
        firsts: [R] index of each request's first.
        is_draft: [S] whether a draft has its place there.
        starts: [R + 1] each request's first among all drafts, and their number.
    """

    def __init__(self, rows: Int64) -> None:
        self.firsts = first_of_each(rows)
        self._lengths = np.diff(self.firsts, append=len(rows))
        self.is_draft = np.ones(len(rows), np.bool_)
        self.is_draft[self.firsts + self._lengths - 1] = False
        starts = np.append(self.firsts, len(rows))
        self.starts: Int64 = starts - np.arange(len(starts))

    def settle(
        self, drafts: Int64, num_accepted: Int64, following: Int64
    ) -> tuple[Int64, Int64]:
        """What stands where, up to each request's last token that is kept.

        Args:
            drafts: All of them.
            num_accepted: [R].
            following: [R] the token behind the accepted ones.

        Returns:
            Indices into S, and the token of each.
        """
        place = np.arange(len(self.is_draft)) - np.repeat(self.firsts, self._lengths)
        last = np.repeat(num_accepted, self._lengths)
        tokens = np.zeros(len(place), np.int64)
        tokens[self.is_draft] = drafts
        tokens = np.where(place < last, tokens, np.repeat(following, self._lengths))
        settled = np.flatnonzero(place <= last)
        return settled, tokens[settled]
