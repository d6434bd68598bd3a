"""What carries messages between engines; knows nothing of what they say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from hookline.kv_transfer.blocks import Bytes

CHUNK_BYTES = 2 << 20
"""Of the blocks of one message, about; a single block may be larger."""


class Peer(NamedTuple):
    """An engine that can be connected to.

    Attributes:
        engine_id: Of this start of it; another start is another engine.
        host: Where it listens.
        port: Likewise.
    """

    engine_id: str
    host: str
    port: int


class Visitor(NamedTuple):
    """An engine that has connected; it can be answered while it stays.

    Attributes:
        route: Of the transport's own.
    """

    route: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """What has come.

    Attributes:
        sender: Whom an answer goes to: the peer that was connected to, or a visitor.
        header: A few bytes.
        frames: Many, perhaps; each uint8.
    """

    sender: Peer | Visitor
    header: bytes
    frames: Sequence[Bytes] = ()


@dataclass(frozen=True, slots=True)
class Refusals:
    """Connections that came to nothing since the last question.

    Attributes:
        visitors: That had not the right secret, or spoke something else.
        peers: That did not let this engine in.
    """

    visitors: int = 0
    peers: Sequence[Peer] = field(default_factory=tuple)


class Transport(Protocol):
    """One engine's; one thread uses it, but for `wake`.

    Messages may be lost, and come twice; parts of one come together. Nothing waits but
    `poll`.
    """

    def listen(self, engine_id: str, layout_bytes: int) -> int:
        """Starts, in whatever thread, before everything else.

        Args:
            engine_id: Of this engine.
            layout_bytes: Of one block, in all layers.

        Returns:
            The port.

        Raises:
            ConfigError: It cannot listen there, or something is not installed.
        """
        ...

    def send(
        self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes] = ()
    ) -> bool:
        """Takes a message; connects if need be.

        Frames must not be changed afterwards.

        Returns:
            False if it is not taken: too much waits already, or nobody is there.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        """What has come; waits until something has, or `wake` is called."""
        ...

    def refusals(self) -> Refusals:
        """Connections that came to nothing since the last call."""
        ...

    def forget(self, peer: Peer) -> None:
        """Ends the connection to a peer; the next message makes a new one."""
        ...

    def wake(self) -> None:
        """Ends `poll`; in any thread."""
        ...

    def close(self) -> None:
        """Gives everything back; what was not sent is lost."""
        ...
