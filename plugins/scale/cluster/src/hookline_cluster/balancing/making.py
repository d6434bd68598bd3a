"""Makes the balancer that a configuration names."""

from collections.abc import Mapping

from hookline.payloads import EngineFacts
from hookline_cluster.balancing.balancer import Balancer
from hookline_cluster.balancing.prefix import PrefixBalancer
from hookline_cluster.balancing.round_robin import RoundRobinBalancer
from hookline_cluster.balancing.score import ScoreBalancer
from hookline_cluster.config import LoadBalancing


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
