"""What a backend does that starts engines on other machines, such as Ray."""

from typing import NamedTuple, Protocol

from hookline.config import EngineConfig


class NodeEnded(NamedTuple):
    """An engine's process on another machine has ended, or could not be started.

    Attributes:
        engine_index: Index of the engine.
        reason: Why, in one clause.
    """

    engine_index: int
    reason: str


class EngineNodes(Protocol):
    """Starts and ends engines' processes on other machines; for one thread.

    Attributes:
        address: This machine's address, as the others reach it.
    """

    address: str

    def start(self, config: EngineConfig, secret: bytes) -> None:
        """Begins to start the process of an engine that has none, without waiting.

        The process joins the head node. If it cannot be started within the join
        timeout, or ends, `take_end` tells so.

        Args:
            config: The other machine's configuration of the engine.
            secret: The secret that it shares with the head node.
        """
        ...

    def stop(self, engine_index: int) -> None:
        """Ends an engine's process, if it has one, without waiting."""
        ...

    def release(self, engine_index: int) -> None:
        """Ends an engine's process, if it has one, and gives its place back.

        Places that were there from the start may be kept. `start` takes another one.
        """
        ...

    def take_end(self) -> NodeEnded | None:
        """Returns the end of a process that was not stopped, once; does not wait."""
        ...

    def close(self) -> None:
        """Ends all processes; may be called twice."""
        ...
