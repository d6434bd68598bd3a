"""The front end's side of its engines, wherever they run."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from hookline.engine.commands import Call, Command, Reply
from hookline.events import ClockPair, Finished, StepOutput
from hookline.payloads import EngineFacts

T = TypeVar("T")


class EngineInfo(NamedTuple):
    """An engine as it reported itself when it was ready.

    Attributes:
        facts: Its model, sizes and limits.
        clock: Its clocks at that time.
    """

    facts: EngineFacts
    clock: ClockPair


class DeathKind(StrEnum):
    """What ended an engine.

    An exception, a fault of its process, the end of its process from outside, or by the
    kernel because memory ran out, a stall, a failing start, the loss of the connection
    to its machine, or the end of another engine with which it shares experts.
    """

    FAILED = "failed"
    CRASHED = "crashed"
    EXITED = "exited"
    MEMORY = "memory"
    STALLED = "stalled"
    START = "start"
    LOST = "lost"
    PEER = "peer"


class EngineDied(NamedTuple):
    """An engine ended unexpectedly; nothing more comes from it.

    Attributes:
        engine_index: Its index.
        reason: Why, in one clause.
        kind: The same, from a small set.
        is_replaced: Whether its owner replaces it; None for its owner, which decides.
        returns: Whether another machine replaces it, whenever it may be, as its owner
            says.
    """

    engine_index: int
    reason: str
    kind: DeathKind = DeathKind.FAILED
    is_replaced: bool | None = None
    returns: bool = False


class SecondaryClientEnded(NamedTuple):
    """Another client has ended without a word; for the owner.

    Attributes:
        engine_index: Which engine tells it; each tells of its own requests.
        client: Index of the client.
        recent: The latest ends of its requests that it got, and may not have told.
    """

    engine_index: int
    client: int
    recent: Sequence[Finished]


class News(Protocol):
    """What only an extension of the front end understands, such as a new engine."""

    @property
    def engine_index(self) -> int:
        """Index of the engine that it concerns."""


Received = StepOutput | EngineDied | Reply | News


def refusal(call: Call, engine: str) -> Reply:
    """Returns the reply to a call whose command another engine does not know."""
    reason = f"the engine {engine} does not know {type(call.command).__name__}"
    return Reply(client=call.client, number=call.number, error=reason)


class EngineClient(Protocol):
    """A connection to one or several engines.

    `receive` is called by one thread only, `send` by one other thread.

    Attributes:
        index: This client's, among all clients of these engines.
        owns_engines: Whether it starts and ends them; otherwise another client does,
            and tells this one of deaths, replacements and stalls.
    """

    index: int
    owns_engines: bool

    @property
    def engines(self) -> Mapping[int, EngineInfo]:
        """Every engine, by its index."""

    @property
    def dropped(self) -> int:
        """Number of messages dropped on either side, because they were not valid."""

    def capability(self, kind: type[T]) -> T | None:
        """Returns what this client can do beyond this interface.

        Args:
            kind: A Protocol of an installed distribution.

        Returns:
            An object of that kind, always the same one; None if the client cannot.
        """

    def send(self, engine_index: int, command: Command) -> None:
        """Sends a command to one engine without waiting.

        Raises:
            EngineDeadError: The engine is known to be dead, or this client is closed.
        """

    def receive(self, timeout_seconds: float) -> Received | None:
        """Waits for the next message of any engine; None if none came in time.

        A death is reported once, within a second, after all that the engine had sent.

        Raises:
            EngineDeadError: All engines are dead and reported and cannot be replaced,
                or this client is closed.
        """

    def close(self) -> None:
        """Ends the engines and everything they own; may be called twice."""
