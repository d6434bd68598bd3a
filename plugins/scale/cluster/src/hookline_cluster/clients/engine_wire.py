"""An engine process's side of the transport with several clients.

The first client owns the engine: it starts it and ends it. Others may attach later.
"""

from pathlib import Path
from typing import cast

import msgspec

from hookline.config import EngineConfig
from hookline.engine.commands import Command, EngineMessage
from hookline_cluster.clients.messages import ToEngine
from hookline_cluster.clients.served_clients import FromClient, ServedClients
from hookline_cluster.config.cluster import ClusterConfig
from hookline_process_engine.engine_wire import EngineWire
from hookline_process_engine.mailbox import Mail
from hookline_process_engine.messages import Ready


class SharedEngineWire(EngineWire):
    """An `EngineWire` whose outputs are divided among clients."""

    message_type = ToEngine

    def __init__(
        self, folder: Path, engine_index: int, owner_index: int, key: bytes
    ) -> None:
        """Connects to the owner; see `EngineWire`."""
        super().__init__(folder, engine_index, owner_index, key)
        self._clients = ServedClients(
            self._owner,
            self._transport,
            self._mailbox.post,
            lambda: self._mailbox.dropped,
        )

    def receive_config(self) -> EngineConfig:
        config = super().receive_config()
        if ClusterConfig.of(config).autoscale is not None:
            self._clients.count_others()
        return config

    def receive(self, timeout_seconds: float) -> Command | None:
        """Waits for a command; None if none came in time, or a bell rang."""
        if self._clients.has_commands:
            return self._clients.next_command()
        return super().receive(timeout_seconds)

    def ready(self, ready: Ready) -> None:
        """Announces the engine to its owner, and to each client that attaches."""
        self._clients.ready(ready)

    def send(self, message: EngineMessage) -> None:
        """Sends a reply to its client, and each event to the client it concerns."""
        self._clients.route(message)

    def failed(self, reason: str) -> None:
        """Tells all clients that the engine ends."""
        self._clients.failed(reason)

    def _command(self, mail: Mail[msgspec.Struct]) -> Command | None:
        return self._clients.on_message(mail.sender, cast("FromClient", mail.message))
