"""The observer process's inbox: hands front ends' notices to the loggers."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from hookline.frontend.observation import Observers
from hookline_observer.asked_front_ends import AskedFrontEnds
from hookline_observer.clients import ObservedClient
from hookline_observer.link import OBSERVER
from hookline_observer.merging import MergedNotices
from hookline_observer.messages import (
    Alive,
    Flush,
    Flushed,
    Join,
    Leave,
    Notices,
    ToFrontEnd,
    Told,
    ToObserver,
)
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.transport import Party, Role
from hookline_processes.forked_children import release_folder_in_forked_children

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
        release_folder_in_forked_children(folder)
        self._mailbox: Mailbox[ToObserver] = Mailbox(
            self._transport,
            OBSERVER,
            msgspec.msgpack.Decoder(ToObserver),
            lambda peer: key if peer.role is Role.CLIENT else None,
        )
        self._mailbox.is_shaking_hands = False
        self._clients: dict[int, ObservedClient] = {}
        self._flushes = threading.Semaphore(_MOST_FLUSHES)
        self._reported_at = time.monotonic()
        self._asked = AskedFrontEnds(self._reply)
        observers.tell_first = self._asked.ask

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
        self._merged.end()

    def close(self) -> None:
        """Closes the sockets, once the last replies are sent."""
        for client in self._clients.values():
            client.close()
        self._transport.close(0.5)

    def _take(self, index: int, message: ToObserver) -> None:
        self._receive(index, message)
        if index in self._clients:
            self._asked.heard(index)

    def _receive(self, index: int, message: ToObserver) -> None:
        if isinstance(message, Join):
            if self._client(index, message.pid) is not None:
                self._reply(index, self._alive)
        elif isinstance(message, Notices):
            # Those of a front end that is not known were for our predecessor.
            if (client := self._client(index, message.pid)) is not None:
                self._take_notices(client, message)
        elif (known := self._clients.get(index)) is None:
            return
        elif isinstance(message, Told):
            self._asked.told(index, message)
        elif isinstance(message, Flush):
            self._start_flush(index, message)
        elif isinstance(message, Leave):
            # The last one has told all: nothing follows `engine_stopped`.
            self._remove(known, is_reported=len(self._clients) > 1)

    def _client(self, index: int, pid: int) -> ObservedClient | None:
        """Returns a front end, which is told of us when it is new; None without room.

        The front end tells us then what we have to know first.
        """
        known = self._clients.get(index)
        if known is not None and known.pid == pid:
            return known
        if known is not None:
            self._remove(known)  # another process has taken its place
        if len(self._clients) >= MOST_CLIENTS:
            _log.error("the observer has no room for front end %d", index)
            return None
        party = Party(Role.CLIENT, index)
        there = ipc_address(self._folder, party)
        self._transport.connect(party, there, max_waiting=_MOST_REPLIES)
        self._clients[index] = client = ObservedClient(index, pid)
        self._reply(index, self._alive)
        return client

    def _take_notices(self, client: ObservedClient, message: Notices) -> None:
        for notice in message.notices:
            self._merged.on_notice(client.index, notice)
        self._merged.on_client_link(
            client.index, message.dropped, message.waited_seconds
        )

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
        if now - self._reported_at < self._alive_seconds:
            return
        self._reported_at = now
        for client in list(self._clients.values()):
            if client.has_ended:
                _log.warning("front end %d has ended", client.index)
                self._remove(client)
            else:
                self._reply(client.index, self._alive)
        self._merged.report()

    def _remove(self, client: ObservedClient, *, is_reported: bool = True) -> None:
        del self._clients[client.index]
        client.close()
        self._transport.disconnect(Party(Role.CLIENT, client.index))
        self._merged.leave(client.index, is_reported=is_reported)
        self._asked.left(client.index)

    def _reply(self, index: int, message: ToFrontEnd) -> bool:
        return self._mailbox.post(Party(Role.CLIENT, index), message, waits=False)
