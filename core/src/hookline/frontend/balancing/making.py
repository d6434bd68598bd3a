"""Makes the balancer that a configuration names."""

from collections.abc import Mapping

from hookline.config import LoadBalancing
from hookline.frontend.balancing.balancer import Balancer
from hookline.frontend.balancing.prefix import PrefixBalancer
from hookline.frontend.balancing.round_robin import RoundRobinBalancer
from hookline.frontend.balancing.score import ScoreBalancer
from hookline.payloads import EngineFacts


def make_balancer(
    balancing: LoadBalancing, engines: Mapping[int, EngineFacts]
) -> Balancer:
    """Returns a new balancer for engines, by their indices."""
    match balancing:
        case LoadBalancing.SCORE:
            return ScoreBalancer()
        case LoadBalancing.ROUND_ROBIN:
            return RoundRobinBalancer()
        case LoadBalancing.PREFIX:
            return PrefixBalancer(engines)
