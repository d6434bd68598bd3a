"""The clients of an engine, as the engine's process serves them.

The first client owns the engine: it starts it and ends it. Others may attach later.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

import msgspec

from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    Reply,
    Sleep,
    WakeUp,
)
from hookline.events import StepOutput
from hookline_cluster.clients.client_table import ClientTable
from hookline_cluster.clients.messages import (
    Attach,
    ClientDrained,
    Detach,
    DetachDrained,
    ForceDetach,
    ForceDetached,
    Overrun,
    SlowCall,
)
from hookline_cluster.clients.other_clients_load import OtherClientsLoad
from hookline_cluster.clients.output_split import split_output
from hookline_process_engine.messages import Failed, Output, Ready
from hookline_process_engine.transport import Party, Role, Transport

SECONDARY_CLIENT_FRAMES = 10_000
"""Maximum number of frames queued for a secondary client; beyond it, it is detached."""
_log = logging.getLogger(__name__)

FromClient = Attach | Detach | DetachDrained | ForceDetach | Add | Finish | Call


class SendMail(Protocol):
    """Sends a message to a connected peer; see `Mailbox.post`."""

    def __call__(
        self, receiver: Party, message: msgspec.Struct, *, waits: bool = True
    ) -> bool: ...


class ServedClients:
    """Who gets what of an engine's messages; for one thread."""

    def __init__(
        self,
        owner: Party,
        transport: Transport,
        send: SendMail,
        num_dropped: Callable[[], int],
    ) -> None:
        """Begins with the owner alone.

        Args:
            owner: The owner.
            transport: Where secondary clients are connected.
            send: Sends a message to a client.
            num_dropped: Returns how many messages this process has dropped.
        """
        self._owner = owner
        self._transport = transport
        self._mail = send
        self._num_dropped = num_dropped
        self._clients = [owner]
        self._secondary = ClientTable()
        self._others: OtherClientsLoad | None = None
        self._commands: deque[Command] = deque()
        self._slow_calls: set[tuple[int, int]] = set()
        self._ready: Ready | None = None

    def count_others(self) -> None:
        """Tells the owner of other clients' requests in numbers, from now on."""
        self._others = OtherClientsLoad(self._owner.index)

    @property
    def has_commands(self) -> bool:
        """Whether the ends of secondary clients have left commands to the engine."""
        return bool(self._commands)

    def next_command(self) -> Command:
        """Returns the next of these commands."""
        return self._commands.popleft()

    def on_message(self, sender: Party, message: FromClient) -> Command | None:
        """Takes a client's message; returns what the engine has to do."""
        if isinstance(message, Attach):
            self._attach(sender, message.address)
        elif isinstance(message, Detach):
            self._detach(sender)
        elif isinstance(message, DetachDrained):
            self._depart(sender, message.number)
        elif isinstance(message, ForceDetach):
            if sender == self._owner:
                self._force_detach(message.client)
        elif sender in self._clients:
            if sender != self._owner:
                self._note(sender, message)
            return message
        return None

    def ready(self, ready: Ready) -> None:
        """Announces the engine to its owner, and to each client that attaches."""
        self._ready = ready
        self._mail(self._owner, ready)

    def route(self, message: EngineMessage) -> None:
        """Sends a reply to its client, and each event to the client it concerns."""
        if not isinstance(message, StepOutput):
            self._reply(message)
        elif self._secondary.are_empty:
            self._mail(self._owner, Output(message, self._num_dropped()))
        else:
            self._send_parts(message)

    def failed(self, reason: str) -> None:
        """Tells all clients that the engine ends."""
        for client in list(self._clients):
            self._send(client, Failed(reason))

    def _note(self, client: Party, command: Command) -> None:
        """Notes what a secondary client commands, as far as others must know."""
        if isinstance(command, Add):
            self._secondary.sent(client.index, command)
        elif isinstance(command, Call) and isinstance(command.command, Sleep | WakeUp):
            self._slow_calls.add((client.index, command.number))
            self._mail(self._owner, SlowCall(is_open=True))

    def _reply(self, reply: Reply) -> None:
        call = (reply.client, reply.number)
        if call in self._slow_calls:
            self._slow_calls.discard(call)
            self._mail(self._owner, SlowCall(is_open=False))
        self._send(Party(Role.CLIENT, reply.client), reply)

    def _send_parts(self, output: StepOutput) -> None:
        indices = [client.index for client in self._clients]
        others = None if self._others is None else self._others.on_output(output)
        parts = split_output(output, indices, self._secondary.orphaned_by, others)
        for index, part in parts:
            client = Party(Role.CLIENT, index)
            if client == self._owner:
                self._mail(client, Output(part, self._num_dropped()))
            elif self._secondary.concerns(index, part):
                self._send(client, Output(part))
        self._secondary.ended(output.events.finished)

    def _send(self, client: Party, message: msgspec.Struct) -> None:
        if client == self._owner:
            self._mail(client, message)
        elif client in self._clients and not self._mail(client, message, waits=False):
            _log.warning("%s does not read its outputs and is detached", client)
            self._detach(client, is_forced=True)
            self._mail(self._owner, Overrun(client.index))

    def _attach(self, client: Party, address: str) -> None:
        if client.role is not Role.CLIENT or client == self._owner:
            return
        try:
            self._transport.connect(
                client, address, max_waiting=SECONDARY_CLIENT_FRAMES
            )
        except ValueError as error:
            _log.warning("%s cannot be attached: %s", client, error)
            return
        if client not in self._clients:
            self._clients.append(client)
            self._secondary.arrived(client.index)
        self._send(client, cast("Ready", self._ready))

    def _force_detach(self, client: int) -> None:
        self._detach(Party(Role.CLIENT, client), is_forced=True)
        recent = self._secondary.take_recent(client)
        self._mail(self._owner, ForceDetached(client, recent))

    def _depart(self, client: Party, number: int) -> None:
        if client != self._owner and client in self._clients:
            self._detach(client)
            # After all outputs of its requests, so that the owner has them by now.
            self._mail(self._owner, ClientDrained(client.index, number))

    def _detach(self, client: Party, *, is_forced: bool = False) -> None:
        if client == self._owner or client not in self._clients:
            return
        self._clients.remove(client)
        self._transport.disconnect(client)
        finish = self._secondary.left(client.index, is_forced=is_forced)
        if finish is not None:
            self._commands.append(finish)
