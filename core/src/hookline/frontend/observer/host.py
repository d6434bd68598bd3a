"""The observer process's inbox: hands front ends' notices to the loggers."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from hookline.frontend.observation import Observers
from hookline.frontend.observer.clients import ObservedClient
from hookline.frontend.observer.link import OBSERVER
from hookline.frontend.observer.merging import MergedNotices
from hookline.frontend.observer.messages import (
    Alive,
    Flush,
    Flushed,
    Join,
    Leave,
    Notices,
    ToFrontEnd,
    ToObserver,
)
from hookline.transport.forked_children import release_in_forked_children
from hookline.transport.ipc import IpcTransport, ipc_address
from hookline.transport.mailbox import Mailbox
from hookline.transport.transport import Party, Role

MOST_CLIENTS = 64
ALIVE_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_MOST_REPLIES = 64
_MOST_FLUSHES = 8
_log = logging.getLogger(__name__)


class ObserverHost:
    """Serves front ends in one thread, until it is told to end."""

    def __init__(
        self,
        folder: Path,
        key: bytes,
        alive: Alive,
        observers: Observers,
        merged: MergedNotices,
        *,
        alive_seconds: float = ALIVE_SECONDS,
    ) -> None:
        """Opens the inbox.

        Args:
            folder: Folder of the sockets.
            key: Secret of all messages.
            alive: What front ends are told.
            observers: The loggers.
            merged: Takes the notices.
            alive_seconds: How often front ends are told that it is alive, and looked
                after.
        """
        self._folder = folder
        self._alive = alive
        self._alive_seconds = alive_seconds
        self._observers = observers
        self._merged = merged
        self._transport = IpcTransport(folder, OBSERVER)
        release_in_forked_children(folder, self._pipes)
        self._mailbox: Mailbox[ToObserver] = Mailbox(
            self._transport,
            OBSERVER,
            msgspec.msgpack.Decoder(ToObserver),
            lambda peer: key if peer.role is Role.CLIENT else None,
        )
        self._mailbox.is_shaking_hands = False
        self._clients: dict[int, ObservedClient] = {}
        self._invited: set[int] = set()
        self._missed: dict[int, int] = {}
        self._flushes = threading.Semaphore(_MOST_FLUSHES)
        self._told_at = time.monotonic()

    @property
    def is_left(self) -> bool:
        """Whether all front ends have ended."""
        return not self._clients

    def serve(self, is_ending: Callable[[], bool]) -> None:
        """Takes messages until the end; then those that are there already."""
        while not is_ending():
            if (mail := self._mailbox.receive(_LOOK_SECONDS)) is not None:
                self._take(mail.sender.index, mail.message)
            self._look_after_clients()
        while (mail := self._mailbox.receive(0)) is not None:
            self._take(mail.sender.index, mail.message)

    def close(self) -> None:
        """Closes the sockets, once the last replies are sent."""
        for client in self._clients.values():
            client.close()
        self._transport.close(0.5)

    def _pipes(self) -> list[int]:
        return []  # but the sockets

    def _take(self, index: int, message: ToObserver) -> None:
        if isinstance(message, Join):
            self._join(index, message)
        elif (client := self._clients.get(index)) is None:
            self._invite(index)
            if isinstance(message, Notices) and index in self._missed:
                self._missed[index] += len(message.notices)
        elif isinstance(message, Notices):
            self._take_notices(client, message)
        elif isinstance(message, Flush):
            self._start_flush(index, message)
        elif isinstance(message, Leave):
            # The last one has told all: nothing follows `engine_stopped`.
            self._remove(client, is_told=len(self._clients) > 1)

    def _join(self, index: int, message: Join) -> None:
        known = self._clients.get(index)
        if known is not None and known.pid != message.pid:
            self._remove(known)  # another process has taken its place
            known = None
        if known is None:
            if len(self._clients) >= MOST_CLIENTS:
                _log.error("front end %d is one too many for the observer", index)
                return
            self._connect(index)
            client = ObservedClient(index, message.pid)
            client.missed = self._missed.pop(index, 0)
            self._clients[index] = client
        self._reply(index, self._alive)

    def _invite(self, index: int) -> None:
        """Tells a front end of our predecessor that it has to join us."""
        if len(self._missed) < MOST_CLIENTS and index not in self._invited:
            self._invited.add(index)
            self._missed.setdefault(index, 0)
            self._connect(index)
            self._reply(index, self._alive)

    def _connect(self, index: int) -> None:
        party = Party(Role.CLIENT, index)
        there = ipc_address(self._folder, party)
        self._transport.connect(party, there, max_waiting=_MOST_REPLIES)

    def _take_notices(self, client: ObservedClient, message: Notices) -> None:
        if message.incarnation != self._alive.incarnation:
            client.missed += len(message.notices)  # they were for our predecessor
        else:
            for notice in message.notices:
                self._merged.take(client.index, notice)
        client.dropped = message.dropped
        lost = client.dropped + client.missed
        self._merged.told(client.index, lost, message.waited_seconds)

    def _start_flush(self, index: int, flush: Flush) -> None:
        """Waits for the loggers in a thread, because others go on meanwhile."""
        if not self._flushes.acquire(blocking=False):
            self._reply(index, Flushed(flush.number, is_complete=False))
            return

        def wait() -> None:
            try:
                is_complete = self._observers.flush(flush.timeout_seconds)
                self._reply(index, Flushed(flush.number, is_complete))
            finally:
                self._flushes.release()

        threading.Thread(target=wait, name="hookline-flush", daemon=True).start()

    def _look_after_clients(self) -> None:
        now = time.monotonic()
        if now - self._told_at < self._alive_seconds:
            return
        self._told_at = now
        self._invited.clear()
        for client in list(self._clients.values()):
            if client.has_ended:
                _log.warning("front end %d has ended", client.index)
                self._remove(client)
            else:
                self._reply(client.index, self._alive)
        self._merged.report()

    def _remove(self, client: ObservedClient, *, is_told: bool = True) -> None:
        del self._clients[client.index]
        client.close()
        self._transport.disconnect(Party(Role.CLIENT, client.index))
        self._merged.leave(client.index, is_told=is_told)

    def _reply(self, index: int, message: ToFrontEnd) -> None:
        self._mailbox.send(Party(Role.CLIENT, index), message, waits=False)
