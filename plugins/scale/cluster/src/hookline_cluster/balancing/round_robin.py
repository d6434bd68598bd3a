"""Balancing round robin: one engine after another."""

from collections.abc import Sequence

from hookline.request import GenerateRequest
from hookline_cluster.balancing.balancer import BlindBalancer, Candidate
from hookline_cluster.balancing.choice import Choice, Reason


class RoundRobinBalancer(BlindBalancer):
    """Chooses the engine that was chosen longest ago, whatever its load."""

    def choose(
        self, candidates: Sequence[Candidate], request: GenerateRequest
    ) -> Choice:
        del request
        return Choice(
            self._turns.next([each.index for each in candidates]), Reason.TURN
        )
