"""Client of engine processes that another process owns."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from hookline.engine.commands import Command, Reply
from hookline.exceptions import EngineDeadError
from hookline.transport.engine_client import DeathKind, EngineDied, EngineInfo, Received
from hookline_cluster.capabilities import EngineAttachments, RemoteEngines
from hookline_cluster.clients.messages import (
    Attach,
    AttachDetails,
    Detach,
    DetachDrained,
    DrainEngine,
    EngineAddress,
    EngineDown,
    EngineRemoved,
    EngineStalled,
    Leaves,
    ToSecondaryClient,
)
from hookline_cluster.news import (
    EngineAvailable,
    EngineDraining,
    EngineJoined,
    EngineLeaving,
    EngineLeft,
    EngineVerdict,
)
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.ipc import IpcTransport
from hookline_process_engine.mailbox import Mail, Mailbox
from hookline_process_engine.messages import Output, Ready
from hookline_process_engine.transport import Party, Role
from hookline_server.engine_sharing import AttachedEngines

T = TypeVar("T")
_CAPABILITIES = frozenset({AttachedEngines, EngineAttachments, RemoteEngines})
_SLICE_SECONDS = 0.1
_FINAL_MESSAGES_SECONDS = 0.1
"""Silence of an engine that has ended, after which nothing more comes from it."""
_ATTACH_SECONDS = 60.0
_LINGER_SECONDS = 1.0
_CLOSED = "it was closed"


class AttachedClient:
    """An `EngineClient` whose engines belong to the client that invited it.

    It hears from that client what becomes of the engines, and decides nothing. An
    engine that joins is attached at once.
    """

    owns_engines = False

    def __init__(self, invitation: AttachDetails) -> None:
        """Attaches to every engine that runs.

        Raises:
            EngineDeadError: An engine does not answer.
        """
        self.index = invitation.client_index
        self.engines = {
            address.engine_index: EngineInfo(address.facts, address.clock)
            for address in invitation.engines
        }
        self._owner = Party(Role.CLIENT, invitation.owner_index)
        self._keys = {self._owner: invitation.key}
        self._hosts: dict[int, str] = {}
        self._deaths: dict[int, EngineDown] = {}
        self._ending: dict[int, tuple[EngineDown, float]] = {}
        self._ready: deque[Received] = deque()
        self._is_closed = False
        me = Party(Role.CLIENT, self.index)
        self._transport = IpcTransport(Path(invitation.folder), me)
        self._mailbox: Mailbox[ToSecondaryClient] = Mailbox(
            self._transport,
            me,
            msgspec.msgpack.Decoder(ToSecondaryClient),
            self._keys.get,
        )
        try:
            self._attach_to_all(invitation.engines)
        except BaseException:
            self.close()
            raise

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self) if kind in _CAPABILITIES else None

    @property
    def hosts(self) -> Mapping[int, str]:
        return self._hosts

    @property
    def dropped(self) -> int:
        return self._mailbox.dropped

    @property
    def are_engines_gone(self) -> bool:
        """Whether all engines have ended for good, as their owner says."""
        deaths = list(self._deaths.values())
        is_final = not any(down.is_replaced for down in deaths)
        return bool(deaths) and len(deaths) == len(self.engines) and is_final

    def leave(self, engine_index: int, number: int) -> None:
        self._mailbox.post(Party(Role.ENGINE, engine_index), DetachDrained(number))

    def come_back(self, engine_index: int) -> None:
        engine = Party(Role.ENGINE, engine_index)
        self._mailbox.post(engine, Attach(self._transport.address))

    def send(self, engine_index: int, command: Command) -> None:
        if (down := self._deaths.get(engine_index)) is not None:
            raise EngineDeadError(down.reason)
        if self._is_closed:
            raise EngineDeadError(_CLOSED)
        self._mailbox.post(Party(Role.ENGINE, engine_index), command)

    def receive(self, timeout_seconds: float) -> Received | None:
        self._check_any_left()
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._mark_silent_dead()
            if self._ready:
                return self._ready.popleft()
            left = max(0.0, deadline - time.monotonic())
            mail = self._mailbox.receive(min(left, _SLICE_SECONDS))
            if mail is not None and (received := self._take(mail)) is not None:
                return received
            if mail is None and left == 0:
                return None

    def close(self) -> None:
        """Leaves the engines, which go on."""
        if self._is_closed:
            return
        self._is_closed = True
        for engine in [each for each in self._keys if each.role is Role.ENGINE]:
            self._mailbox.post(engine, Detach(), waits=False)
        self._transport.close(_LINGER_SECONDS)

    def _attach_to_all(self, addresses: Iterable[EngineAddress]) -> None:
        awaited = set()
        for address in addresses:
            if address.down is not None:
                self._mark_dead(address.down)
            else:
                awaited.add(address.engine_index)
                self._attach(address)
        deadline = time.monotonic() + _ATTACH_SECONDS
        while awaited:
            if time.monotonic() > deadline:
                raise EngineDeadError(f"engine {min(awaited)} does not answer")
            if (mail := self._mailbox.receive(_SLICE_SECONDS)) is None:
                continue
            received, index = self._take(mail), mail.sender.index
            if isinstance(mail.message, EngineDown | EngineRemoved):
                awaited.discard(mail.message.engine_index)
            elif isinstance(mail.message, Ready) and index in awaited:
                awaited.discard(index)
                continue  # no news: it is there from the start
            if received is not None:
                self._ready.append(received)
        self._mailbox.is_shaking_hands = False

    def _attach(self, address: EngineAddress) -> None:
        engine = Party(Role.ENGINE, address.engine_index)
        self._keys[engine] = address.key
        if address.host:
            self._hosts[address.engine_index] = address.host
        self._transport.connect(engine, address.address, max_waiting=0)
        self._mailbox.post(engine, Attach(self._transport.address))

    def _take(self, mail: Mail[ToSecondaryClient]) -> Received | None:
        if mail.sender == self._owner:
            return self._take_news(mail.message)
        index, message = mail.sender.index, mail.message
        if index in self._ending:
            self._ending[index] = (self._ending[index][0], time.monotonic())
        if isinstance(message, Output):
            is_there = index in self.engines and index not in self._deaths
            return message.output if is_there else None
        if isinstance(message, Reply):
            return message
        if isinstance(message, Ready):
            return self._take_ready(index, message)
        return None  # it has failed, and its owner tells what becomes of it

    def _take_news(self, news: ToSecondaryClient) -> Received | None:
        if isinstance(news, EngineDown):
            self._ending[news.engine_index] = (news, time.monotonic())
        elif isinstance(news, EngineAddress):
            return self._take_address(news)
        elif isinstance(news, EngineStalled):
            return EngineVerdict(
                news.engine_index, news.reason, news.seconds, news.is_final
            )
        elif isinstance(news, DrainEngine):
            return EngineDraining(news.engine_index, news.number)
        elif isinstance(news, Leaves):
            return EngineLeaving(news.engine_index)
        elif isinstance(news, EngineRemoved):
            self._take_gone(news.engine_index)
        return None

    def _take_address(self, address: EngineAddress) -> EngineAvailable | None:
        index = address.engine_index
        if (ending := self._ending.get(index)) is not None:
            self._mark_dead(ending[0])
        if self._keys.get(Party(Role.ENGINE, index)) == address.key:
            return EngineAvailable(index)  # a process that is known
        self._attach(address)
        return None

    def _take_gone(self, index: int) -> None:
        if (ending := self._ending.get(index)) is not None:
            self._mark_dead(ending[0])
        self._deaths.pop(index, None)
        self.engines.pop(index, None)
        # Its key stays for what may still be on its way.
        self._transport.disconnect(Party(Role.ENGINE, index))
        self._ready.append(EngineLeft(index))

    def _take_ready(self, index: int, ready: Ready) -> EngineReplaced | EngineJoined:
        self.engines[index] = info = EngineInfo(ready.facts, ready.clock)
        death = self._deaths.pop(index, None)
        if death is not None and death.is_replaced:
            return EngineReplaced(index, info)
        return EngineJoined(index, info)

    def _mark_silent_dead(self) -> None:
        """Reports the ends of engines whose final messages have had time to come."""
        now = time.monotonic()
        for down, since in list(self._ending.values()):
            if now - since > _FINAL_MESSAGES_SECONDS:
                self._mark_dead(down)

    def _mark_dead(self, down: EngineDown) -> None:
        index = down.engine_index
        self._ending.pop(index, None)
        self._deaths[index] = down
        kind = DeathKind(down.kind)
        self._ready.append(
            EngineDied(index, down.reason, kind, down.is_replaced, down.returns)
        )

    def _check_any_left(self) -> None:
        """Raises once all engines have ended for good and that is reported."""
        if not self._ready and self.are_engines_gone:
            raise EngineDeadError(next(iter(self._deaths.values())).reason)
