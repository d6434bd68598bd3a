"""Engines as actors, seen from the front end; the data-parallel backend `ray`."""

from hookline.config import Device, EngineConfig
from hookline.exceptions import ConfigError
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.engine_nodes import NodeEnded
from hookline_ray.addresses import cluster_address
from hookline_ray.driver_link import DriverLink
from hookline_ray.messages import Ended, Kind, Open, Start, Stop

_BACKEND = "data-parallel-backend"
_DRIVER_ENDED = "its Ray actor ended with the Ray driver process"


def open_nodes(config: EngineConfig) -> "RayNodes":
    """Connects to the configured cluster, or starts one on this machine.

    Raises:
        ConfigError: An option does not fit.
        EngineDeadError: The cluster cannot be reached.
    """
    cluster = ClusterConfig.of(config)
    if config.executor.device is Device.CUDA:
        raise ConfigError(_BACKEND, "ray places engines by CPUs, not on device cuda")
    threads = config.executor.threads or 1
    opening = Open(
        address=cluster_address(config),
        kind=Kind.ENGINE,
        indices=tuple(cluster.remote_indices),
        cpus=threads * config.parallel.world_size,
        deadline_seconds=cluster.machines.join_timeout,
    )
    return RayNodes(opening)


class RayNodes:
    """The actors of engines, as `EngineNodes`; Ray itself is in another process."""

    def __init__(self, opening: Open) -> None:
        """Starts the driver process and waits until it is connected."""
        self._launch = 0
        self._running: dict[int, int] = {}
        self._driver = DriverLink(opening)
        self.address = self._driver.address

    def start(self, config: EngineConfig, secret: bytes) -> None:
        self._launch += 1
        self._running[config.engine_index] = self._launch
        if self._driver.revive():  # else `take_end` tells that it has ended
            self._driver.tell(Start(self._launch, config, secret))

    def stop(self, engine_index: int) -> None:
        if self._running.pop(engine_index, None) is not None:
            self._driver.tell(Stop(engine_index))

    def release(self, engine_index: int) -> None:
        self._running.pop(engine_index, None)
        self._driver.tell(Stop(engine_index, gives_back=True))

    def take_end(self) -> NodeEnded | None:
        while (event := self._driver.take_end()) is not None:
            if self._is_current(event):
                del self._running[event.index]
                return NodeEnded(event.index, event.reason)
        if self._running and self._driver.end_reason is not None:
            index, _ = self._running.popitem()
            return NodeEnded(index, f"{_DRIVER_ENDED}: {self._driver.end_reason}")
        return None

    def close(self) -> None:
        self._running.clear()
        self._driver.close()

    def _is_current(self, event: Ended) -> bool:
        return self._running.get(event.index) == event.launch
