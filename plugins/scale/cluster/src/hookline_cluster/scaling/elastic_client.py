"""Client of engine processes that come and go while it serves."""

from dataclasses import replace
from typing import TypeVar, cast

from hookline.config import EngineConfig
from hookline.transport.engine_client import Received
from hookline_cluster.capabilities import ElasticEngines
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.clients.secondary_clients import SecondaryClients
from hookline_cluster.news import EngineLeft
from hookline_cluster.scaling.elastic import Elastic

T = TypeVar("T")
_REMOVED = "it was removed"


class ElasticClient(Elastic, OwnerClient):
    """An `OwnerClient` that adds and removes engines."""

    def __init__(self, *configs: EngineConfig, client_index: int = 0) -> None:
        """Starts the first engines; see `OwnerClient`."""
        Elastic.__init__(self)
        self._leaving: list[int] = []
        OwnerClient.__init__(self, *configs, client_index=client_index)

    def capability(self, kind: type[T]) -> T | None:
        if kind is ElasticEngines:
            return cast("T", self)
        return super().capability(kind)

    @property
    def _secondary_clients(self) -> SecondaryClients:
        return self._secondary

    def receive(self, timeout_seconds: float) -> Received | None:
        self._obey()
        if (left := self._take_left()) is not None:
            return left
        return self._of_joining(super().receive(timeout_seconds))

    def _begin_start(self, index: int, num_blocks: int) -> None:
        sibling = next(iter(self._configs.values()))
        cache = replace(sibling.cache, sibling_blocks=num_blocks)
        self._configs[index] = replace(sibling.of_engine(index), cache=cache)
        if index in self._launched:  # it has ended for good
            self._end_process(index)
        self._deaths.pop(index, None)
        self._dropped_there.setdefault(index, 0)
        self._launch(index)

    def _begin_end(self, index: int) -> None:
        self._due.pop(index, None)
        self._starting.discard(index)
        self._leaving.append(index)
        if (launched := self._launched.get(index)) is not None:
            self._deaths[index] = _REMOVED
            # Not by hanging up: then it would remove the sockets of all.
            launched.kill()

    def _take_left(self) -> EngineLeft | None:
        for index in self._leaving:
            launched = self._launched.get(index)
            if launched is None or launched.exit_code is not None:
                self._leaving.remove(index)
                self._forget(index)
                return EngineLeft(index)
        return None

    def _forget(self, index: int) -> None:
        if index in self._launched:
            self._end_process(index)
            del self._launched[index]
        self.engines.pop(index, None)
        self._deaths.pop(index, None)
        self._drain_grace.pop(index, None)
        if self._ended is not None and self._ended.engine_index == index:
            self._ended = None
        self._secondary.left(index)
