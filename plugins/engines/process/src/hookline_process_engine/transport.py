"""The transport's Protocol: frames between numbered clients and engines."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class Role(IntEnum):
    """Which side of the transport a party is on; a joiner asks to be an engine."""

    CLIENT = 1
    ENGINE = 2
    JOINER = 3
    OBSERVER = 4


@dataclass(frozen=True, slots=True)
class Party:
    """One end of the transport: a client (a front end), an engine or the observer."""

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role.name.lower()} {self.index}"


class Transport(Protocol):
    """One party's inbox for frames of all peers, and an outbox for each peer.

    `receive` belongs to one thread and `send` to another (or the same); either may
    call `connect` and `disconnect`, and `close` is called when neither is in use.
    Frames of one peer arrive in order, and none is lost while both ends live.
    """

    @property
    def address(self) -> str:
        """Address of the inbox for peers."""
        ...

    def connect(self, peer: Party, address: str, *, max_waiting: int) -> None:
        """Opens the outbox of a peer.

        Args:
            peer: Whose.
            address: Address of its inbox.
            max_waiting: Frames that may wait in the outbox; 0 for any number.

        Raises:
            ValueError: The address is none.
        """
        ...

    def disconnect(self, peer: Party) -> None:
        """Closes a peer's outbox; frames that wait in it are dropped."""
        ...

    def send(self, peer: Party, frame: bytearray, *, waits: bool) -> bool:
        """Puts a copy of a frame into a peer's outbox.

        Args:
            peer: Returns False if it is not connected.
            frame: May be changed once this returns.
            waits: Whether to wait for room; else returns False if there is no room.
        """
        ...

    def receive(self, timeout_seconds: float) -> bytes | None:
        """Waits for the next frame in the inbox; None if no frame came in time."""
        ...

    def close(self, linger_seconds: float = 0.0) -> None:
        """Sends queued frames until the timeout, then closes; may be called twice."""
        ...
