"""The interface of transports, which send encoded data to a collector."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Refusal:
    """A failed export.

    Attributes:
        why: Error message.
        is_passing: Whether a retry may succeed.
        pause_seconds: Minimum pause before a retry that the collector asked for.
    """

    why: str
    is_passing: bool = False
    pause_seconds: float = 0.0


class Transport(Protocol):
    """A connection to a collector; one thread sends, another may close it."""

    def post(self, body: bytes, timeout_seconds: float) -> Refusal | None:
        """Sends once and waits for the response; returns None on success."""
        ...

    def close(self) -> None:
        """Makes `post` give up if possible; does not block."""
        ...
