"""What clients share whose engines come and go: who was asked for, and who joins."""

import queue
from abc import ABC, abstractmethod

from hookline.transport.engine_client import EngineDied, Received
from hookline_cluster.clients.secondary_clients import SecondaryClients
from hookline_cluster.news import EngineJoined, EngineNotJoined
from hookline_process_engine.capabilities import EngineReplaced


class Elastic(ABC):
    """Base of clients to which engines are added, and from which they are removed.

    The receiving thread does it, because it owns handshakes and looks after processes;
    whoever asks does not wait.
    """

    def __init__(self) -> None:
        """Begins with nobody asked for."""
        self._asked: queue.SimpleQueue[tuple[int, int | None]] = queue.SimpleQueue()
        self._joining: set[int] = set()

    def add(self, engine_index: int, num_blocks: int) -> None:
        """See `ElasticEngines.add`."""
        self._asked.put((engine_index, num_blocks))

    def remove(self, engine_index: int) -> None:
        """See `ElasticEngines.remove`."""
        self._asked.put((engine_index, None))

    def drain_engine(self, engine_index: int) -> None:
        """See `ElasticEngines.drain_engine`."""
        if self._secondary_clients is not None:
            self._secondary_clients.drain_engine(engine_index)

    def keep(self, engine_index: int) -> None:
        """See `ElasticEngines.keep`."""
        if self._secondary_clients is not None:
            self._secondary_clients.keep(engine_index)

    def client_left(self, engine_index: int, client: int, number: int | None) -> None:
        """See `ElasticEngines.client_left`."""
        if self._secondary_clients is not None:
            self._secondary_clients.client_left(engine_index, client, number)

    def is_drained(self, engine_index: int) -> bool:
        """See `ElasticEngines.is_drained`."""
        others = self._secondary_clients
        return others is None or others.is_drained(engine_index)

    def _obey(self) -> None:
        """Begins what was asked for."""
        while not self._asked.empty():
            index, num_blocks = self._asked.get()
            if num_blocks is None:
                self._joining.discard(index)
                self._begin_end(index)
            else:
                self._joining.add(index)
                self._begin_start(index, num_blocks)

    def _of_joining(self, received: Received | None) -> Received | None:
        """Returns the news of an engine that joins, or could not, as such."""
        if not isinstance(received, EngineDied | EngineReplaced):
            return received
        index = received.engine_index
        if index not in self._joining:
            return received
        self._joining.discard(index)
        if isinstance(received, EngineReplaced):
            return EngineJoined(index, received.info)
        self._forget(index)
        return EngineNotJoined(index, received.reason)

    @property
    @abstractmethod
    def _secondary_clients(self) -> SecondaryClients | None:
        """Other clients of the engines; None if there are none."""

    @abstractmethod
    def _begin_start(self, index: int, num_blocks: int) -> None:
        """Starts an engine, whose end or readiness is received as of a replacement."""

    @abstractmethod
    def _begin_end(self, index: int) -> None:
        """Ends an engine, which may be starting, or have ended."""

    @abstractmethod
    def _forget(self, index: int) -> None:
        """Forgets an engine whose process has ended."""
