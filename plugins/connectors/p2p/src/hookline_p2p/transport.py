"""Carries messages between engines, whatever they contain."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from hookline_kv_transfer.blocks import Bytes

CHUNK_BYTES = 2 << 20
"""Approximate size of the blocks in one message; a single block may be larger."""


class Peer(NamedTuple):
    """An engine that can be connected to.

    Attributes:
        engine_id: Id of this start of the engine; a restart has another.
        host: Address that it listens on.
        port: Port that it listens on.
    """

    engine_id: str
    host: str
    port: int


class Visitor(NamedTuple):
    """An engine that has connected here; answers reach it while it stays connected.

    Attributes:
        route: The transport's key for the connection.
    """

    route: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """A received message.

    Attributes:
        sender: Where an answer goes: the peer that was connected to, or a visitor.
        header: The encoded message.
        frames: Bytes of blocks, a frame for each layer; uint8.
    """

    sender: Peer | Visitor
    header: bytes
    frames: Sequence[Bytes] = ()


@dataclass(frozen=True, slots=True)
class Refusals:
    """Connections that failed.

    Attributes:
        visitors: Number of visitors with a wrong secret or another protocol.
        peers: Peers that refused this engine.
    """

    visitors: int = 0
    peers: Sequence[Peer] = field(default_factory=tuple)


class Transport(Protocol):
    """The connections of one engine; for one thread, except `wake`.

    Messages may be lost or duplicated, but not torn. Only `poll` blocks.
    """

    def listen(self, engine_id: str, layout_bytes: int) -> int:
        """Starts to listen; called once, before any other call, in any thread.

        Args:
            engine_id: Id of this engine.
            layout_bytes: Size of one block in all layers.

        Returns:
            The port.

        Raises:
            ConfigError: It cannot listen there, or a package is missing.
        """
        ...

    def send(
        self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes] = ()
    ) -> bool:
        """Sends a message; connects first if necessary.

        Frames must not be changed afterwards.

        Returns:
            False if it is dropped: the queue is full, or the visitor is gone.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        """Returns received messages; waits for one, or until `wake` is called."""
        ...

    def refusals(self) -> Refusals:
        """Returns the connections that failed since the last call."""
        ...

    def forget(self, peer: Peer) -> None:
        """Ends the connection to a peer; the next message makes a new one."""
        ...

    def wake(self) -> None:
        """Ends `poll`; in any thread."""
        ...

    def close(self) -> None:
        """Closes everything; unsent messages are lost."""
        ...
