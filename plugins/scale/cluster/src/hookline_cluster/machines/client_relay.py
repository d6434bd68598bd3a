"""Passes frames between clients on this machine and engines on others, unread."""

import shutil

import zmq

from hookline_cluster.clients.served_clients import SECONDARY_CLIENT_FRAMES
from hookline_process_engine.ipc import IpcTransport, socket_folder
from hookline_process_engine.mailbox import key_in
from hookline_process_engine.transport import Party, Role
from hookline_processes.forked_children import release_folder_in_forked_children

_INDEX_BYTES = 4


def client_label(client: Party) -> bytes:
    """Returns what names a secondary client in a frame's envelope, between machines."""
    return client.index.to_bytes(_INDEX_BYTES, "big")


class ClientRelay:
    """The head node's inbox for frames to engines of other machines.

    Only the head node is connected to these engines, so that one port is enough. It
    neither decodes frames nor checks them: each has the key of its engine, which the
    receiver checks, and which names the engine. `next_frame` and `pass_on` are for the
    thread that receives from the engines, the rest for any thread.
    """

    most_waiting = SECONDARY_CLIENT_FRAMES
    """Maximum number of frames that wait for a client; beyond it, it is given up."""

    def __init__(self) -> None:
        """Opens the inbox, in a folder of its own."""
        self.folder = socket_folder()
        self.transport = IpcTransport(self.folder, Party(Role.CLIENT, 0))
        self._engines: dict[bytes, Party] = {}
        self._overrun: set[int] = set()
        release_folder_in_forked_children(self.folder)

    @property
    def address(self) -> str:
        """Address of the inbox."""
        return self.transport.address

    @property
    def inbox(self) -> "zmq.Socket[bytes]":
        """The inbox, for a poller of the receiving thread."""
        return self.transport.inbox

    @property
    def overrun(self) -> frozenset[int]:
        """Secondary clients that have not taken what engines sent them."""
        return frozenset(self._overrun)

    def add_engine(self, engine: Party, key: bytes) -> None:
        """Passes frames with this key to an engine, and none with an earlier one."""
        self.remove_engine(engine)
        self._engines[key] = engine

    def remove_engine(self, engine: Party) -> None:
        """Passes nothing to an engine any more."""
        for key, known in list(self._engines.items()):
            if known == engine:
                del self._engines[key]

    def forget(self, client: int) -> None:
        """Forgets a secondary client that has ended."""
        self._overrun.discard(client)

    def next_frame(self) -> tuple[Party, bytes] | None:
        """Returns a client's frame and its engine; None if that is not there."""
        frame = self.transport.receive(0.0)
        if frame is None or (engine := self._engines.get(key_in(frame))) is None:
            return None
        return engine, frame

    def pass_on(self, label: bytes, frame: bytes) -> None:
        """Passes a frame of an engine to a secondary client; without waiting."""
        client = Party(Role.CLIENT, int.from_bytes(label, "big"))
        is_sent = self.transport.send(client, frame, waits=False)
        if not is_sent and self.transport.has(client):
            self._overrun.add(client.index)

    def close(self) -> None:
        """Closes the sockets and removes their folder; may be called twice."""
        self.transport.close()
        shutil.rmtree(self.folder, ignore_errors=True)
