"""How likely drafts are accepted, learned from those that were verified.

Of all requests together, for each place in a draft: how often the proposer has one for
it if it had those before it, and how often it is right if those were. Of a request, how
often its drafts are right wherever they stand, and how often the proposer has any for
it; a new one is taken to be as all are.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

_KEPT = 0.9
"""Of what is known of all, for each draft that is verified …"""
_LEAST_KEPT = 0.75
"""… but so much of it whatever a step brings."""
_KEPT_OF_ONE = 0.93
"""Of what is known of a request, for each of its draft tokens that is compared."""
_PRIOR = 1.0
"""Drafts that a place is taken to have had besides, accepted as those before it."""
_PRIOR_OF_ONE = 2.0
"""Draft tokens that a request is taken to have had besides, right as those of all."""
_PRIOR_OF_LENGTH = 0.1
"""Times that a proposer is taken to have had a draft behind another besides: how many
it can have is mostly always the same."""
_START = 0.5
"""What is expected of the first place before anything is known."""


class _Record:
    """Of one request: draft tokens that were compared, and right; old ones weigh less.

    So do the times that the proposer was asked, and had something.
    """

    __slots__ = ("asked", "found", "right", "tried")

    def __init__(self) -> None:
        self.asked = self.found = self.tried = self.right = 0.0

    def availability(self, of_all: float) -> float:
        return (self.found + _PRIOR_OF_ONE * of_all) / (self.asked + _PRIOR_OF_ONE)


class Acceptance:
    """Of one engine's requests.

    Attributes:
        num_seen: Drafts that what is known rests on, old ones weighing less.
    """

    def __init__(self, most: int) -> None:
        """Of drafts of up to `most` tokens."""
        self._tried = [0.0] * most
        self._right = [0.0] * most
        self._chances = [_START] * most
        self._asked = [0.0] * most
        self._found = [0.0] * most
        self._records: dict[int, _Record] = {}

    @property
    def num_seen(self) -> float:
        return self._tried[0]

    def verified(self, outcomes: Mapping[int, tuple[int, int]]) -> None:
        """Takes in how many drafts each request had, and how many were accepted."""
        kept = max(_KEPT ** len(outcomes), _LEAST_KEPT)
        self._tried = [kept * each for each in self._tried]
        self._right = [kept * each for each in self._right]
        for request_id, (drafts, accepted) in outcomes.items():
            tried = min(accepted + 1, drafts, len(self._tried))
            for place in range(tried):
                self._tried[place] += 1
                self._right[place] += place < accepted
            record = self._records.setdefault(request_id, _Record())
            kept = _KEPT_OF_ONE**tried
            record.tried = kept * record.tried + tried
            record.right = kept * record.right + accepted
        chance = _START
        for place, tried_here in enumerate(self._tried):
            right = self._right[place] + _PRIOR * chance
            chance = self._chances[place] = right / (tried_here + _PRIOR)

    def proposed(self, counts: Mapping[int, tuple[int, int]]) -> None:
        """Takes in how many drafts each request was asked for, and how many came."""
        kept = max(_KEPT ** len(counts), _LEAST_KEPT)
        deepest = max(most for most, _ in counts.values())
        for place in range(deepest):
            self._asked[place] *= kept
            self._found[place] *= kept
        for request_id, (most, count) in counts.items():
            for place in range(min(count + 1, most)):
                self._asked[place] += 1
                self._found[place] += place < count
            record = self._records.setdefault(request_id, _Record())
            record.asked = _KEPT * record.asked + 1
            record.found = _KEPT * record.found + (count > 0)

    def forecast(
        self, request_ids: Sequence[int], most: int
    ) -> tuple[Float64, Float64]:
        """What is to be expected of so many drafts for each of R requests.

        Returns:
            [R, most] how likely the proposer has each of them, and [R, most] how likely
            each one that it has, and all before it, are accepted.
        """
        prior = np.full(most, _PRIOR_OF_LENGTH)
        prior[0] = 1.0
        had = (self._found[:most] + prior) / (self._asked[:most] + prior)
        new = _Record()
        records = [self._records.get(each, new) for each in request_ids]
        right: Float64 = np.array([record.right for record in records])
        tried: Float64 = np.array([record.tried for record in records])
        of_place: Float64 = _PRIOR_OF_ONE * np.array(self._chances[:most])
        chances = (right[:, None] + of_place) / (tried[:, None] + _PRIOR_OF_ONE)
        found: Float64 = np.array([record.availability(had[0]) for record in records])
        further = np.cumprod(np.append(1.0, had[1:]))
        likely = np.cumprod(chances, axis=1, dtype=np.float64)
        return found[:, None] * further, likely

    def release(self, request_id: int) -> None:
        """Forgets a request."""
        self._records.pop(request_id, None)
