"""Estimates how likely drafts are accepted, from the drafts that were verified.

Two conditional rates are kept per draft position, over all requests: how often the
proposer returns a draft given that it returned the ones before, and how often a draft
is accepted given that those before it were. Two more are kept per request: its
acceptance rate over all positions, and how often the proposer returns any draft for it.
A new request starts from the rates of all requests.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

_KEPT = 0.9
"""Decay of the overall counts, per request with verified drafts."""
_LEAST_KEPT = 0.75
"""Lower bound of that decay in one step."""
_KEPT_OF_ONE = 0.93
"""Decay of a request's counts, per compared draft token."""
_PRIOR = 1.0
"""Pseudo-count of drafts at a position, accepted as often as at the one before it."""
_PRIOR_OF_ONE = 2.0
"""Pseudo-count of a request's draft tokens, accepted as often as those of all."""
_PRIOR_OF_LENGTH = 0.1
"""Pseudo-count of drafts that follow another one; low, because a proposer's length is
mostly constant."""
_START = 0.5
"""Expected acceptance at the first position before any draft was verified."""


class _Record:
    """Decayed counts of one request.

    Attributes:
        requested: Calls that requested drafts for it.
        found: Calls that returned any.
        tried: Draft tokens that were compared.
        accepted: Draft tokens that were accepted.
    """

    __slots__ = ("accepted", "found", "requested", "tried")

    def __init__(self) -> None:
        self.requested = self.found = self.tried = self.accepted = 0.0

    def availability(self, of_all: float) -> float:
        """Returns how likely the proposer has a draft, given the rate of all."""
        found = self.found + _PRIOR_OF_ONE * of_all
        return found / (self.requested + _PRIOR_OF_ONE)


class Acceptance:
    """Acceptance rates of one engine's requests.

    Attributes:
        num_seen: Decayed number of verified drafts that the rates are based on.
    """

    def __init__(self, most: int) -> None:
        """Tracks up to `most` draft tokens per request."""
        self._tried = [0.0] * most
        self._accepted = [0.0] * most
        self._chances = [_START] * most
        self._requested = [0.0] * most
        self._found = [0.0] * most
        self._records: dict[int, _Record] = {}

    @property
    def num_seen(self) -> float:
        return self._tried[0]

    def record_verified(self, outcomes: Mapping[int, tuple[int, int]]) -> None:
        """Records (verified, accepted) numbers of drafts by request id."""
        kept = max(_KEPT ** len(outcomes), _LEAST_KEPT)
        self._tried = [kept * each for each in self._tried]
        self._accepted = [kept * each for each in self._accepted]
        for request_id, (drafts, accepted) in outcomes.items():
            tried = min(accepted + 1, drafts, len(self._tried))
            for place in range(tried):
                self._tried[place] += 1
                self._accepted[place] += place < accepted
            record = self._records.setdefault(request_id, _Record())
            kept = _KEPT_OF_ONE**tried
            record.tried = kept * record.tried + tried
            record.accepted = kept * record.accepted + accepted
        chance = _START
        for place, tried_here in enumerate(self._tried):
            accepted_here = self._accepted[place] + _PRIOR * chance
            chance = self._chances[place] = accepted_here / (tried_here + _PRIOR)

    def record_proposed(self, counts: Mapping[int, tuple[int, int]]) -> None:
        """Records (requested, returned) numbers of drafts by request id."""
        kept = max(_KEPT ** len(counts), _LEAST_KEPT)
        deepest = max(most for most, _ in counts.values())
        for place in range(deepest):
            self._requested[place] *= kept
            self._found[place] *= kept
        for request_id, (most, count) in counts.items():
            for place in range(min(count + 1, most)):
                self._requested[place] += 1
                self._found[place] += place < count
            record = self._records.setdefault(request_id, _Record())
            record.requested = _KEPT * record.requested + 1
            record.found = _KEPT * record.found + (count > 0)

    def forecast(
        self, request_ids: Sequence[int], most: int
    ) -> tuple[Float64, Float64]:
        """Returns the expected outcome of up to `most` drafts for each of R requests.

        Returns:
            [R, most] float64 probabilities that the proposer returns each draft, and
            [R, most] that a returned draft and all before it are accepted.
        """
        prior = np.full(most, _PRIOR_OF_LENGTH)
        prior[0] = 1.0
        had = (self._found[:most] + prior) / (self._requested[:most] + prior)
        new = _Record()
        records = [self._records.get(each, new) for each in request_ids]
        accepted: Float64 = np.array([record.accepted for record in records])
        tried: Float64 = np.array([record.tried for record in records])
        of_place: Float64 = _PRIOR_OF_ONE * np.array(self._chances[:most])
        chances = (accepted[:, None] + of_place) / (tried[:, None] + _PRIOR_OF_ONE)
        found: Float64 = np.array([record.availability(had[0]) for record in records])
        further = np.cumprod(np.append(1.0, had[1:]))
        likely = np.cumprod(chances, axis=1, dtype=np.float64)
        return found[:, None] * further, likely

    def remove_request(self, request_id: int) -> None:
        """Forgets a request."""
        self._records.pop(request_id, None)
