"""An engine process's side of the transport: one inbox, and an outbox for each client.

The first client owns the engine: it starts it and ends it. Others may attach later.
"""

import logging
from collections import deque
from pathlib import Path
from typing import cast

import msgspec

from hookline.config import EngineConfig
from hookline.core.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Reply,
    Sleep,
    WakeUp,
)
from hookline.events import StepOutput
from hookline.transport.guest_books import GuestBooks
from hookline.transport.ipc import IpcTransport, ipc_address
from hookline.transport.mailbox import Mailbox
from hookline.transport.messages import (
    Attach,
    Detach,
    Expel,
    Expelled,
    Failed,
    Hello,
    Output,
    Overrun,
    Ready,
    SlowCall,
    Start,
    StartFailed,
    ToEngine,
)
from hookline.transport.output_split import split_output
from hookline.transport.transport import Party, Role

_OWNER_FRAMES = 1000
"""Maximum number of frames queued for the owner; the engine waits beyond it."""
_GUEST_FRAMES = 10_000
"""Maximum number of frames queued for a guest; beyond it, the guest is detached."""
_LINGER_SECONDS = 1.0
_log = logging.getLogger(__name__)


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
        self._clients = [self._owner]
        self._guests = GuestBooks()
        self._commands: deque[Command] = deque()
        self._slow_calls: set[tuple[int, int]] = set()
        self._ready: Ready | None = None
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
                return mail.message.config

    def receive(self, timeout_seconds: float) -> Command | None:
        """Waits for a command; None if none came in time, or a bell rang."""
        if self._commands:
            return self._commands.popleft()
        if (mail := self._mailbox.receive(timeout_seconds)) is None:
            return None
        message = mail.message
        if isinstance(message, Attach):
            self._attach(mail.sender, message.address)
        elif isinstance(message, Detach):
            self._detach(mail.sender)
        elif isinstance(message, Expel):
            if mail.sender == self._owner:
                self._expel(message.client)
        elif not isinstance(message, Start) and mail.sender in self._clients:
            if mail.sender != self._owner:
                self._note(mail.sender, message)
            return message
        return None

    def _note(self, guest: Party, command: Command) -> None:
        """Notes what a guest commands, as far as others must know."""
        if isinstance(command, Add):
            self._guests.sent(guest.index, command)
        elif isinstance(command, Call) and isinstance(command.command, Sleep | WakeUp):
            self._slow_calls.add((guest.index, command.number))
            self._mailbox.send(self._owner, SlowCall(is_open=True))

    def start_failed(self, kind: str, subject: str, detail: str) -> None:
        self._mailbox.send(self._owner, StartFailed(kind, subject, detail))

    def ready(self, ready: Ready) -> None:
        """Announces the engine to its owner, and to each client that attaches."""
        self._ready = ready
        self._mailbox.send(self._owner, ready)

    def send(self, message: EngineMessage) -> None:
        """Sends a reply to its client, and each event to the client it concerns."""
        if not isinstance(message, StepOutput):
            self._reply(message)
        elif self._guests.are_empty:
            output = Output(message, self._mailbox.dropped)
            self._mailbox.send(self._owner, output)
        else:
            self._send_parts(message)

    def failed(self, reason: str) -> None:
        for client in list(self._clients):
            self._send(client, Failed(reason))

    def close(self) -> None:
        """Sends the remaining messages, for a second at most."""
        self._transport.close(_LINGER_SECONDS)

    def _reply(self, reply: Reply) -> None:
        call = (reply.client, reply.number)
        if call in self._slow_calls:
            self._slow_calls.discard(call)
            self._mailbox.send(self._owner, SlowCall(is_open=False))
        self._send(Party(Role.CLIENT, reply.client), reply)

    def _send_parts(self, output: StepOutput) -> None:
        indices = [client.index for client in self._clients]
        parts = split_output(output, indices, self._guests.orphaned_by)
        for index, part in parts:
            client = Party(Role.CLIENT, index)
            if client == self._owner:
                self._mailbox.send(client, Output(part, self._mailbox.dropped))
            elif self._guests.concerns(index, part):
                self._send(client, Output(part))
        self._guests.ended(output.finished)

    def _send(self, client: Party, message: msgspec.Struct) -> None:
        if client == self._owner:
            self._mailbox.send(client, message)
        elif client in self._clients and not self._mailbox.send(
            client, message, waits=False
        ):
            _log.warning("%s does not take its outputs and is detached", client)
            self._detach(client, is_expelled=True)
            self._mailbox.send(self._owner, Overrun(client.index))

    def _attach(self, client: Party, address: str) -> None:
        if client.role is not Role.CLIENT or client == self._owner:
            return
        try:
            self._transport.connect(client, address, max_waiting=_GUEST_FRAMES)
        except ValueError as error:
            _log.warning("%s cannot be attached: %s", client, error)
            return
        if client not in self._clients:
            self._clients.append(client)
            self._guests.arrived(client.index)
        self._send(client, cast("Ready", self._ready))

    def _expel(self, client: int) -> None:
        self._detach(Party(Role.CLIENT, client), is_expelled=True)
        recent = self._guests.take_recent(client)
        self._mailbox.send(self._owner, Expelled(client, recent))

    def _detach(self, client: Party, *, is_expelled: bool = False) -> None:
        if client == self._owner or client not in self._clients:
            return
        self._clients.remove(client)
        self._transport.disconnect(client)
        finish = self._guests.left(client.index, is_expelled=is_expelled)
        if finish is not None:
            self._commands.append(finish)
