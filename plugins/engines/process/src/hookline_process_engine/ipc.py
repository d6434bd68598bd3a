"""A `Transport` between the processes of one user, over ZMQ on sockets in a folder."""

import os
import tempfile
import threading
from pathlib import Path

import zmq

from hookline_process_engine.transport import Party, Role

LARGEST_FRAME = 1 << 28
"""Maximum size of a frame, in bytes; ZMQ cuts a connection that announces more."""


def ipc_address(folder: Path, party: Party) -> str:
    """Returns the address of a party's inbox in the folder."""
    return f"ipc://{folder / f'{party.role.name.lower()}-{party.index}.ipc'}"


def private_folder() -> Path:
    """Makes a folder that only this user may enter, with room for sockets' paths."""
    usual = Path(tempfile.gettempdir())
    longest = ipc_address(usual / "hookline-12345678", Party(Role.CLIENT, 99999))
    fits = len(os.fsencode(longest.removeprefix("ipc://"))) <= zmq.IPC_PATH_MAX_LEN
    return Path(tempfile.mkdtemp(prefix="hookline-", dir=usual if fits else "/tmp"))  # noqa: S108


class IpcTransport:
    """A PULL socket for the inbox and a PUSH socket for each outbox.

    Only this user may enter the folder, and frames name their sender: that they are
    genuine is for the receiver to check.

    Attributes:
        bell: Descriptor that ends a wait for frames once it is readable; None for none.
    """

    def __init__(self, folder: Path, party: Party) -> None:
        self.bell: int | None = None
        self._address = ipc_address(folder, party)
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
        if not self._wait(round(timeout_seconds * 1000)):
            return None
        return self._inbox.recv()

    def _wait(self, milliseconds: int) -> bool:
        """Returns whether a frame is there, at the latest after this time."""
        if self.bell is None or not milliseconds:
            return bool(self._inbox.poll(milliseconds))
        poller = zmq.Poller()
        poller.register(self._inbox, zmq.POLLIN)
        poller.register(self.bell, zmq.POLLIN)
        return self._inbox in dict(poller.poll(milliseconds))

    def close(self, linger_seconds: float = 0.0) -> None:
        if not self._context.closed:
            self._context.destroy(linger=round(linger_seconds * 1000))
