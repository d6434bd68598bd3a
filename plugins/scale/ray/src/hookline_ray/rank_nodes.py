"""Ranks as actors, seen from their executor."""

from hookline.config import EngineConfig
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.ranks.connected_ranks import RankEnded
from hookline_cluster.ranks.rank_messages import RankEnlistment
from hookline_ray.addresses import cluster_address
from hookline_ray.driver_link import DriverLink
from hookline_ray.messages import Kind, Open, StartRank

_DRIVER_ENDED = "its Ray actor ended with the Ray driver process"


class RayRankNodes:
    """The actors of an engine's ranks, as `RankNodes`; Ray is in another process."""

    def __init__(self, config: EngineConfig) -> None:
        """Asks for a place for each rank; does not wait for it.

        Args:
            config: The engine's configuration.

        Raises:
            ConfigError: An option does not fit.
            EngineDeadError: The cluster cannot be reached.
        """
        opening = Open(
            address=cluster_address(config),
            kind=Kind.RANK,
            indices=tuple(range(config.parallel.world_size)),
            cpus=config.executor.threads or 1,
            deadline_seconds=ClusterConfig.of(config).machines.join_timeout,
        )
        self._running: set[int] = set()
        self._driver = DriverLink(opening)
        self.address = self._driver.address

    def start(self, enlisted: RankEnlistment) -> None:
        """Implements `RankNodes`."""
        self._running.add(enlisted.rank)
        self._driver.tell(StartRank(enlisted))

    def take_end(self) -> RankEnded | None:
        """Implements `RankNodes`."""
        if (event := self._driver.take_end()) is not None:
            self._running.discard(event.index)
            return RankEnded(event.index, event.reason)
        if self._running and self._driver.end_reason is not None:
            reason = f"{_DRIVER_ENDED}: {self._driver.end_reason}"
            return RankEnded(self._running.pop(), reason)
        return None

    def close(self) -> None:
        """Implements `RankNodes`."""
        self._running.clear()
        self._driver.close()
