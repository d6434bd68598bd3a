"""A `Transport` between the processes of one user, over ZMQ on sockets in a folder."""

import logging
import os
import threading
import time
from pathlib import Path

import zmq

from hookline_process_engine.transport import Party, Role
from hookline_processes.private_folder import (
    LOOK_SECONDS,
    make_folder_again,
    private_folder,
)

LARGEST_FRAME = 1 << 28
"""Maximum size of a frame, in bytes; ZMQ cuts a connection that announces more."""


_SCHEME = "ipc://"
_log = logging.getLogger(__name__)


def ipc_address(folder: Path, party: Party) -> str:
    """Returns the address of a party's inbox in the folder."""
    return f"{_SCHEME}{folder / _name(party)}"


def socket_folder() -> Path:
    """Makes a folder that only this user may enter, for the inboxes of all parties."""
    return private_folder(_name(Party(Role.CLIENT, 99999)))


class IpcTransport:
    """A PULL socket for the inbox and a PUSH socket for each outbox.

    Only this user may enter the folder, and frames name their sender: that they are
    genuine is for the receiver to check. Whoever receives notices within a second if
    the inbox's file was removed, and opens it again: open connections do not need it,
    but processes that start later do.

    Attributes:
        bell: Descriptor that ends a wait for frames once it is readable; None for none.
    """

    def __init__(self, folder: Path, party: Party) -> None:
        self.bell: int | None = None
        self._address = ipc_address(folder, party)
        self._path = folder / _name(party)
        self._looks_at = 0.0
        self._obstacle = ""
        make_folder_again(folder)
        self._context = zmq.Context(io_threads=1)
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.setsockopt(zmq.MAXMSGSIZE, LARGEST_FRAME)
        self._inbox.bind(self._address)
        # A socket of ZMQ is for one thread at a time.
        self._lock = threading.Lock()
        self._outboxes: dict[Party, zmq.Socket[bytes]] = {}

    @property
    def address(self) -> str:
        return self._address

    @property
    def inbox(self) -> "zmq.Socket[bytes]":
        """The inbox, for a poller of the thread that receives."""
        return self._inbox

    def has(self, peer: Party) -> bool:
        """Whether a peer's outbox is open."""
        with self._lock:
            return peer in self._outboxes

    def connect(self, peer: Party, address: str, *, max_waiting: int) -> None:
        self.disconnect(peer)
        outbox = self._context.socket(zmq.PUSH)
        outbox.set_hwm(max_waiting)
        try:
            outbox.connect(address)
        except zmq.ZMQError as error:
            outbox.close(linger=0)
            raise ValueError(f"{address!r} is not an address") from error
        with self._lock:
            self._outboxes[peer] = outbox

    def disconnect(self, peer: Party) -> None:
        with self._lock:
            if (outbox := self._outboxes.pop(peer, None)) is not None:
                outbox.close(linger=0)

    def send(self, peer: Party, frame: bytearray | bytes, *, waits: bool) -> bool:
        with self._lock:
            if (outbox := self._outboxes.get(peer)) is None:
                return False
            try:
                outbox.send(frame, 0 if waits else zmq.NOBLOCK)
            except zmq.Again:
                return False
        return True

    def receive(self, timeout_seconds: float) -> bytes | None:
        left = timeout_seconds
        while True:
            self.keep_address()
            part = min(left, LOOK_SECONDS)
            ready = self._wait(round(part * 1000))
            if self._inbox in ready:
                return self._inbox.recv()
            left -= part
            if ready or left <= 0:
                return None

    def keep_address(self) -> None:
        """Has the inbox be found again if its file was removed; for its thread.

        It looks once in a while: each look is a system call.
        """
        if (now := time.monotonic()) < self._looks_at:
            return
        self._looks_at = now + LOOK_SECONDS
        if os.path.lexists(self._path):
            return
        try:
            make_folder_again(self._path.parent)
            # Beside the old one, with which its connections would end.
            self._inbox.bind(self._address)
        except (OSError, zmq.ZMQError) as error:
            if self._obstacle != (obstacle := str(error)):
                self._obstacle = obstacle
                _log.error("%s was removed, and is lost: %s", self._path, obstacle)
            return
        self._obstacle = ""
        _log.warning("%s was removed, and is there again", self._path)

    def _wait(self, milliseconds: int) -> "dict[zmq.Socket[bytes] | int, int]":
        """Returns what is ready, the inbox or the bell, at the latest then."""
        if self.bell is None or not milliseconds:
            event = self._inbox.poll(milliseconds)
            return {self._inbox: event} if event else {}
        poller = zmq.Poller()
        poller.register(self._inbox, zmq.POLLIN)
        poller.register(self.bell, zmq.POLLIN)
        return dict(poller.poll(milliseconds))

    def close(self, linger_seconds: float = 0.0) -> None:
        if not self._context.closed:
            self._context.destroy(linger=round(linger_seconds * 1000))


def _name(party: Party) -> str:
    return f"{party.role.name.lower()}-{party.index}.ipc"
