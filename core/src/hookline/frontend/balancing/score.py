"""Balancing by score: the engine of least load."""

from collections.abc import Sequence

from hookline.frontend.balancing.balancer import (
    BlindBalancer,
    Candidate,
    Choice,
    Reason,
)
from hookline.frontend.input_processor import PreparedRequest


class ScoreBalancer(BlindBalancer):
    """Chooses the engine of least load; equally loaded ones take turns."""

    def choose(
        self, candidates: Sequence[Candidate], prepared: PreparedRequest
    ) -> Choice:
        del prepared
        loads = {each.index: each.load for each in candidates}
        return Choice(self._turns.least(list(loads), loads.__getitem__), Reason.LOAD)
