"""Engines in this process that join when a test says so, and leave at once."""

from collections import deque
from dataclasses import replace
from typing import TypeVar, cast

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine_setup.building import build_core, build_loop
from hookline.exceptions import EngineDeadError
from hookline.transport.engine_client import EngineDied, EngineInfo, Received
from hookline.transport.inproc_client import EngineTurn, InprocClient
from hookline_cluster.capabilities import ElasticEngines
from hookline_cluster.news import EngineJoined, EngineLeft, EngineNotJoined

T = TypeVar("T")


class InprocElasticClient(InprocClient):
    """An `InprocClient` to which engines are added, and from which they are removed.

    Attributes:
        starting: Indices of the engines that were added and are not ready.
    """

    def __init__(self, *configs: EngineConfig) -> None:
        """Starts the first engines."""
        cores = [build_core(each, SystemClock()) for each in configs]
        super().__init__(*map(build_loop, cores))
        self.starting: list[int] = []
        self._config = configs[0]
        self._news: deque[Received] = deque()

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self) if kind is ElasticEngines else None

    def add(self, engine_index: int, num_blocks: int) -> None:
        self._blocks = num_blocks
        self.starting.append(engine_index)

    def remove(self, engine_index: int) -> None:
        if engine_index in self.starting:
            self.starting.remove(engine_index)
        self._forget(engine_index)
        self._news.append(EngineLeft(engine_index))

    def drain_engine(self, engine_index: int) -> None:
        """Asks the others, of which there are none."""

    def keep(self, engine_index: int) -> None:
        """Tells the others, of which there are none."""

    def client_left(self, engine_index: int, client: int, number: int | None) -> None:
        """Hears of the others, of which there are none."""

    def is_drained(self, engine_index: int) -> bool:
        """Returns True, because there are no other clients."""
        del engine_index
        return True

    def get_ready(self) -> None:
        """Makes all engines that start, which then report that they are ready."""
        for index in self.starting:
            self._forget(index)
            cache = replace(self._config.cache, sibling_blocks=self._blocks)
            config = replace(self._config.of_engine(index), cache=cache)
            core = build_core(config, SystemClock())
            self._driven[index] = EngineTurn(build_loop(core))
            self._turns.append(index)
            self.engines[index] = EngineInfo(core.facts, core.clock_pair())
            self._news.append(EngineJoined(index, self.engines[index]))
        self.starting = []

    def fail_starts(self, reason: str) -> None:
        """Has all engines that start fail."""
        self._news.extend(EngineNotJoined(each, reason) for each in self.starting)
        self.starting = []

    def kill(self, engine_index: int) -> None:
        """Ends an engine, which is reported as its death."""
        self._turns.remove(engine_index)
        self._driven[engine_index].death = "it was killed"
        self._news.append(EngineDied(engine_index, "it was killed"))

    def receive(self, timeout_seconds: float) -> Received | None:
        if self._news:
            return self._news.popleft()
        if not self._turns:
            raise EngineDeadError("all engines are dead")
        return super().receive(timeout_seconds)

    def _forget(self, index: int) -> None:
        self._driven.pop(index, None)
        self.engines.pop(index, None)
        if index in self._turns:
            self._turns.remove(index)
