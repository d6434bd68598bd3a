"""What carries encoded data to a collector, whatever the protocol."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why data did not arrive.

    Attributes:
        why: For people.
        is_passing: Whether it may arrive if it is sent again.
        pause_seconds: How long the collector asks to be left alone.
    """

    why: str
    is_passing: bool = False
    pause_seconds: float = 0.0


class Transport(Protocol):
    """A connection to a collector; one thread sends, another may close it."""

    def post(self, body: bytes, timeout_seconds: float) -> Refusal | None:
        """Sends once and waits for the answer; None if it arrived."""
        ...

    def close(self) -> None:
        """Makes `post` give up where that can be done; returns at once."""
        ...
