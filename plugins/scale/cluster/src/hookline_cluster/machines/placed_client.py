"""Client of engines on other machines that a backend starts, ends and replaces."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from hookline.config import EngineConfig
from hookline.transport.engine_client import DeathKind, EngineDied, EngineInfo, Received
from hookline_cluster.capabilities import ElasticEngines
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.engine_nodes import EngineNodes, NodeEnded
from hookline_cluster.machines.remote_client import DRAIN_SECONDS, RemoteClient
from hookline_cluster.machines.remote_engine import Presence, RemoteEngine
from hookline_cluster.machines.remote_secondary_clients import RemoteSecondaryClients
from hookline_cluster.machines.tcp import TcpHub
from hookline_cluster.news import EngineLeft
from hookline_cluster.scaling.elastic import Elastic
from hookline_process_engine.capabilities import EngineReplaced

T = TypeVar("T")
_REMOVED = "it was removed"


class PlacedClient(Elastic, RemoteClient):
    """A `RemoteClient` that decides itself when another process becomes an engine.

    So deaths and replacements are as those of processes here. It waits longer
    than the nodes do, which know better why an engine is not there.
    """

    patience_seconds = 5.0

    def __init__(
        self,
        config: EngineConfig,
        hub: TcpHub,
        nodes: EngineNodes,
        start: Callable[[int], None],
        relay: ClientRelay | None = None,
    ) -> None:
        """Takes over hub, relay and nodes, and begins to start all engines.

        Args:
            config: The head node's configuration.
            hub: Where the engines connect.
            nodes: What ends them.
            start: Begins to start an engine by its index.
            relay: The hub's, if engines can have other clients.
        """
        Elastic.__init__(self)
        RemoteClient.__init__(self, config, hub, relay)
        self._left: deque[int] = deque()
        self._blocks: dict[int, int] = {}
        self._nodes = nodes
        self._start = start
        self._due: dict[int, float] = {}
        for index in ClusterConfig.of(config).remote_indices:
            self._start(index)

    def capability(self, kind: type[T]) -> T | None:
        if kind is ElasticEngines:
            return cast("T", self)
        return super().capability(kind)

    @property
    def _secondary_clients(self) -> RemoteSecondaryClients | None:
        return self._secondary

    def returns(self, engine_index: int) -> bool:
        """Returns False: it comes back only if it is replaced."""
        del engine_index
        return False

    def replace(self, engine_index: int, after_seconds: float) -> None:
        # The receiving thread starts it: it owns the nodes.
        self._due[engine_index] = time.monotonic() + after_seconds

    def receive(self, timeout_seconds: float) -> Received | None:
        self._obey()
        if self._left:
            return EngineLeft(self._left.popleft())
        return self._of_joining(super().receive(timeout_seconds))

    def close(self) -> None:
        self._due.clear()
        super().close()
        self._nodes.close()

    def _take_loss(self) -> EngineDied | None:
        self._start_due()
        if (ended := self._nodes.take_end()) is not None:
            return self._take_end(ended)
        return super()._take_loss()

    def _start_due(self) -> None:
        now = time.monotonic()
        for index in [each for each, due in list(self._due.items()) if due <= now]:
            del self._due[index]
            self._start(index)

    def _take_end(self, ended: NodeEnded) -> EngineDied | None:
        index, reason = ended
        if self._is_waiting:
            self._given_up = f"engine {index}: {reason}"
            return None
        if self._remotes[index].presence is Presence.READY:
            # What it had sent may still be on its way.
            death = EngineDied(index, reason, DeathKind.EXITED)
            self._losses.setdefault(index, (time.monotonic() + DRAIN_SECONDS, death))
            return None
        died = EngineDied(index, reason, DeathKind.START)
        super()._mark_dead(died)
        return died

    def _mark_dead(self, death: EngineDied) -> EngineDied | None:
        presence = self._remotes[death.engine_index].presence
        if presence is Presence.ABSENT:
            self._losses.pop(death.engine_index, None)
            return None
        marked = super()._mark_dead(death)
        self._nodes.stop(death.engine_index)
        if self._is_waiting:
            self._given_up = f"engine {death.engine_index}: {death.reason}"
        elif presence is Presence.STARTING:
            return death._replace(kind=DeathKind.START)
        return marked

    # -- engines that come and go --------------------------------------------------

    def _begin_start(self, index: int, num_blocks: int) -> None:
        self._remotes.setdefault(index, RemoteEngine(index))
        self.engines.pop(index, None)
        self._blocks[index] = num_blocks
        self._start(index)

    def _begin_end(self, index: int) -> None:
        self._due.pop(index, None)
        self._losses.pop(index, None)
        engine = self._remotes[index]
        if engine.presence is not Presence.ABSENT:
            self._dismiss(engine, returns=False)
            engine.leave(_REMOVED, is_lost=False)
        self._forget(index)
        self._left.append(index)

    def _forget(self, index: int) -> None:
        self.engines.pop(index, None)
        self._blocks.pop(index, None)
        self._nodes.release(index)
        if self._secondary is not None:
            self._secondary.left(index)

    def _take_ready(self, engine: RemoteEngine, info: EngineInfo) -> Received | None:
        received = super()._take_ready(engine, info)
        is_joining = engine.index in self._joining
        return EngineReplaced(engine.index, info) if is_joining else received

    def _config_of(self, engine_index: int) -> EngineConfig:
        config = super()._config_of(engine_index)
        blocks = self._blocks.get(engine_index)
        return replace(config, cache=replace(config.cache, sibling_blocks=blocks))
