"""An engine process's side of the transport: one inbox, and an outbox for each client.

The first client owns the engine: it starts it and ends it. Others may attach later.
"""

from pathlib import Path

import msgspec

from hookline.config import EngineConfig
from hookline.core.commands import Command, EngineMessage
from hookline.transport.ipc import IpcTransport, ipc_address
from hookline.transport.mailbox import Mailbox
from hookline.transport.messages import Hello, Ready, Start, StartFailed, ToEngine
from hookline.transport.served_clients import ServedClients
from hookline.transport.transport import Party, Role

_OWNER_FRAMES = 1000
"""Maximum number of frames queued for the owner; the engine waits beyond it."""
_LINGER_SECONDS = 1.0


class EngineWire:
    """Commands in, outputs and replies out; for one thread."""

    def __init__(
        self, folder: Path, engine_index: int, owner_index: int, key: bytes
    ) -> None:
        engine = Party(Role.ENGINE, engine_index)
        self._owner = Party(Role.CLIENT, owner_index)
        self._transport = IpcTransport(folder, engine)
        self._mailbox: Mailbox[ToEngine] = Mailbox(
            self._transport, engine, msgspec.msgpack.Decoder(ToEngine), lambda _: key
        )
        address = ipc_address(folder, self._owner)
        self._transport.connect(self._owner, address, max_waiting=_OWNER_FRAMES)
        self._clients = ServedClients(
            self._owner,
            self._transport,
            self._mailbox.send,
            lambda: self._mailbox.dropped,
        )
        self._mailbox.send(self._owner, Hello(self._transport.address))

    def listen_to(self, bell: int | None) -> None:
        """Has `receive` return early once a descriptor is readable.

        Args:
            bell: The descriptor; None for none.
        """
        self._transport.bell = bell

    def receive_config(self) -> EngineConfig:
        """Waits for the owner's configuration.

        Raises:
            SchemaVersionError: The owner has another version.
        """
        while True:
            mail = self._mailbox.receive(60.0)
            if mail is not None and isinstance(mail.message, Start):
                self._mailbox.is_shaking_hands = False
                config = mail.message.config
                if config.parallel.autoscale is not None:
                    self._clients.count_others()
                return config

    def receive(self, timeout_seconds: float) -> Command | None:
        """Waits for a command; None if none came in time, or a bell rang."""
        if self._clients.has_commands:
            return self._clients.next_command()
        mail = self._mailbox.receive(timeout_seconds)
        if mail is None or isinstance(mail.message, Start):
            return None
        return self._clients.take(mail.sender, mail.message)

    def start_failed(self, kind: str, subject: str, detail: str) -> None:
        self._mailbox.send(self._owner, StartFailed(kind, subject, detail))

    def ready(self, ready: Ready) -> None:
        """Announces the engine to its owner, and to each client that attaches."""
        self._clients.ready(ready)

    def send(self, message: EngineMessage) -> None:
        """Sends a reply to its client, and each event to the client it concerns."""
        self._clients.send(message)

    def failed(self, reason: str) -> None:
        """Tells all clients that the engine ends."""
        self._clients.failed(reason)

    def close(self) -> None:
        """Sends the remaining messages, for a second at most."""
        self._transport.close(_LINGER_SECONDS)
