"""An engine process's side of the transport: one inbox, and an outbox for its owner."""

from pathlib import Path
from typing import ClassVar, cast

import msgspec

from hookline.config.engine import EngineConfig
from hookline.engine.commands import Command, EngineMessage
from hookline.events import StepOutput
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.mailbox import Mail, Mailbox
from hookline_process_engine.messages import (
    Failed,
    Hello,
    Output,
    Ready,
    Start,
    StartFailed,
    ToEngine,
)
from hookline_process_engine.transport import Party, Role

_OWNER_FRAMES = 1000
"""Maximum number of frames queued for the owner; the engine waits beyond it."""
_LINGER_SECONDS = 1.0


class EngineWire:
    """Commands in, outputs and replies out; for one thread.

    Attributes:
        message_type: What clients may send.
    """

    message_type: ClassVar[object] = ToEngine

    def __init__(
        self, folder: Path, engine_index: int, owner_index: int, key: bytes
    ) -> None:
        """Connects to the owner, and says hello.

        Args:
            folder: Folder of the sockets.
            engine_index: Index of this engine.
            owner_index: Index of the client that owns it.
            key: The secret of its messages.
        """
        engine = Party(Role.ENGINE, engine_index)
        self._owner = Party(Role.CLIENT, owner_index)
        self._transport = IpcTransport(folder, engine)
        self._mailbox: Mailbox[msgspec.Struct] = Mailbox(
            self._transport,
            engine,
            msgspec.msgpack.Decoder(cast("type[msgspec.Struct]", self.message_type)),
            lambda _: key,
        )
        address = ipc_address(folder, self._owner)
        self._transport.connect(self._owner, address, max_waiting=_OWNER_FRAMES)
        self._mailbox.post(self._owner, Hello(self._transport.address))

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
                return mail.message.config

    def receive(self, timeout_seconds: float) -> Command | None:
        """Waits for a command; None if none came in time, or a bell rang."""
        mail = self._mailbox.receive(timeout_seconds)
        if mail is None or isinstance(mail.message, Start):
            return None
        return self._command(mail)

    def start_failed(self, kind: str, subject: str, detail: str) -> None:
        """Tells the owner why the engine cannot start."""
        self._mailbox.post(self._owner, StartFailed(kind, subject, detail))

    def ready(self, ready: Ready) -> None:
        """Announces the engine to its owner."""
        self._mailbox.post(self._owner, ready)

    def send(self, message: EngineMessage) -> None:
        """Sends an output or a reply to the owner."""
        if isinstance(message, StepOutput):
            self._mailbox.post(self._owner, Output(message, self._mailbox.dropped))
        else:
            self._mailbox.post(self._owner, message)

    def failed(self, reason: str) -> None:
        """Tells the owner that the engine ends."""
        self._mailbox.post(self._owner, Failed(reason))

    def close(self) -> None:
        """Sends the remaining messages, for a second at most."""
        self._transport.close(_LINGER_SECONDS)

    def _command(self, mail: Mail[msgspec.Struct]) -> Command | None:
        """Returns what the engine has to do because of a message."""
        return cast("Command", mail.message) if mail.sender == self._owner else None
