"""One client of engines on this machine and engines on others."""

import queue
import threading
from collections.abc import Mapping
from typing import TypeVar, cast

from hookline.engine.commands import Command
from hookline.engine_setup.failure import FailureBarrier
from hookline.exceptions import EngineDeadError
from hookline.transport.engine_client import EngineDied, EngineInfo, Received
from hookline_cluster.capabilities import (
    EngineLinks,
    RemoteEngines,
    SecondaryClientNews,
)
from hookline_cluster.clients.messages import AttachDetails
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.machines.remote_client import RemoteClient
from hookline_cluster.news import EngineVerdict
from hookline_metrics.front_end_parts import LinkStats
from hookline_process_engine.capabilities import EngineProcesses
from hookline_processes.inspector import ProcessInspector
from hookline_server.engine_sharing import AttachInfo, SharedEngines

T = TypeVar("T")
_CAPABILITIES = frozenset(
    {EngineProcesses, EngineLinks, SecondaryClientNews, RemoteEngines, SharedEngines}
)
_RECEIVE_SECONDS = 0.2
_CLOSED = "it was closed"


class MultiNodeClient:
    """An `EngineClient` of two clients, each of which has a receiving thread.

    What they receive waits in one queue: as much as the front end has not processed.
    """

    index = 0
    owns_engines = True

    def __init__(self, local: OwnerClient, remote: RemoteClient) -> None:
        """Takes over both clients, whose engines are ready."""
        self._local = local
        self._remote = remote
        self._received: queue.SimpleQueue[Received | str] = queue.SimpleQueue()
        self._ends: list[str] = []
        self._is_closing = threading.Event()
        self._threads = [self._start(local, "local"), self._start(remote, "remote")]

    @property
    def engines(self) -> Mapping[int, EngineInfo]:
        return {**self._local.engines, **self._remote.engines}

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self) if kind in _CAPABILITIES else None

    @property
    def hosts(self) -> Mapping[int, str]:
        return self._remote.hosts

    @property
    def links(self) -> LinkStats:
        return self._remote.links

    @property
    def dropped(self) -> int:
        return self._local.dropped + self._remote.dropped

    def inspector(self, engine_index: int) -> ProcessInspector | None:
        return self._part(engine_index).inspector(engine_index)

    def returns(self, engine_index: int) -> bool:
        is_local = engine_index in self._local.engines
        return not is_local and self._remote.returns(engine_index)

    def kill(self, engine_index: int, reason: str) -> None:
        self._part(engine_index).kill(engine_index, reason)

    def replace(self, engine_index: int, after_seconds: float) -> None:
        self._part(engine_index).replace(engine_index, after_seconds)

    def tell_death(self, death: EngineDied, *, is_replaced: bool) -> None:
        self._part(death.engine_index).tell_death(death, is_replaced=is_replaced)

    def tell_verdict(self, verdict: EngineVerdict) -> None:
        self._part(verdict.engine_index).tell_verdict(verdict)

    @property
    def overrun_clients(self) -> frozenset[int]:
        """Clients that get no more outputs, because they did not take them."""
        return self._local.overrun_clients | self._remote.overrun_clients

    def attach_info(self, client_index: int) -> AttachInfo:
        return self.invite(client_index).packed()

    def invite(self, client_index: int) -> AttachDetails:
        """Lets another process attach to the engines, as this client."""
        return self._remote.join_in(self._local.invite(client_index))

    def force_detach(self, client_index: int) -> None:
        """Has the engines abort the requests of a secondary client that has ended."""
        self._local.force_detach(client_index)
        self._remote.force_detach(client_index)

    def send(self, engine_index: int, command: Command) -> None:
        self._part(engine_index).send(engine_index, command)

    def receive(self, timeout_seconds: float) -> Received | None:
        if self._is_closing.is_set():
            raise EngineDeadError(_CLOSED)
        try:
            received = self._received.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if not isinstance(received, str):
            return received
        # The engines of this part are all dead and reported.
        self._ends.append(received)
        if len(self._ends) == len(self._threads):
            raise EngineDeadError(received)
        return None

    def close(self) -> None:
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        for thread in self._threads:
            thread.join()
        self._remote.close()
        self._local.close()

    def _part(self, engine_index: int) -> OwnerClient | RemoteClient:
        return self._local if engine_index in self._local.engines else self._remote

    def _start(self, part: OwnerClient | RemoteClient, name: str) -> threading.Thread:
        thread = threading.Thread(
            target=self._pump, args=[part], name=f"engines-{name}", daemon=True
        )
        thread.start()
        return thread

    def _pump(self, part: OwnerClient | RemoteClient) -> None:
        with FailureBarrier(self._received.put):
            while not self._is_closing.is_set():
                received = part.receive(_RECEIVE_SECONDS)
                if received is not None:
                    self._received.put(received)
