"""Balancing by score: the engine of least load."""

from collections.abc import Sequence

from hookline.request import GenerateRequest
from hookline_cluster.balancing.balancer import BlindBalancer, Candidate
from hookline_cluster.balancing.choice import Choice, Reason


class ScoreBalancer(BlindBalancer):
    """Chooses the engine of least load; equally loaded ones take turns."""

    def choose(
        self, candidates: Sequence[Candidate], request: GenerateRequest
    ) -> Choice:
        del request
        loads = {each.index: each.load for each in candidates}
        return Choice(self._turns.least(list(loads), loads.__getitem__), Reason.LOAD)
