"""The front end's side of its engines, wherever they run."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from hookline.core.commands import Command, Reply
from hookline.events import ClockPair, Finished, StepOutput
from hookline.front_end_parts import LinkStats
from hookline.payloads import EngineFacts
from hookline.transport.process_inspector import ProcessInspector


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

    An exception, a fault of its process, the end of its process from outside, a stall,
    a failing start, the loss of the connection to its machine, or the end of another
    engine with which it shares experts.
    """

    FAILED = "failed"
    CRASHED = "crashed"
    EXITED = "exited"
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


class EngineReplaced(NamedTuple):
    """A new process of an engine is ready; it knows none of the old one's requests."""

    engine_index: int
    info: EngineInfo


class EngineVerdict(NamedTuple):
    """What an engine's owner thinks of it, for its guests.

    Attributes:
        engine_index: Its index.
        reason: What it does not do, in one clause; None if it works.
        seconds: How long it has not done it.
        is_final: Whether its requests are given up.
    """

    engine_index: int
    reason: str | None
    seconds: float
    is_final: bool


class GuestEnded(NamedTuple):
    """Another client has ended without a word; for the owner.

    Attributes:
        engine_index: Which engine tells it; each tells of its own requests.
        client: Index of the client.
        recent: The latest ends of its requests that it got, and may not have told.
    """

    engine_index: int
    client: int
    recent: Sequence[Finished]


class GuestCall(NamedTuple):
    """Another client's call that may take long begins or ends; for the owner.

    Attributes:
        engine_index: The engine that it calls.
        is_open: Whether it begins.
    """

    engine_index: int
    is_open: bool


class EngineLeaving(NamedTuple):
    """An engine finishes its requests and then ends; it should get no more."""

    engine_index: int


class EngineJoined(NamedTuple):
    """An engine that was added is ready; it has no requests."""

    engine_index: int
    info: EngineInfo


class EngineNotJoined(NamedTuple):
    """An engine that was added cannot be started, and was forgotten.

    Attributes:
        engine_index: Its index.
        reason: Why, in one clause.
    """

    engine_index: int
    reason: str


class EngineLeft(NamedTuple):
    """An engine that was removed has ended; nothing more comes from it."""

    engine_index: int


class EngineUnwanted(NamedTuple):
    """The engine's owner wants this client to leave it, once it has nothing open there.

    Attributes:
        engine_index: Its index.
        number: Number of the wish, for `EngineVisits.leave`.
    """

    engine_index: int
    number: int


class EngineOffered(NamedTuple):
    """The engine's owner wants this client to stay there, or to come back."""

    engine_index: int


class GuestLeft(NamedTuple):
    """Another client has left an engine, as its owner wants; for the owner.

    Attributes:
        engine_index: The engine.
        client: Index of the client.
        number: Number of the owner's wish.
    """

    engine_index: int
    client: int
    number: int


EngineNumberNews = (
    EngineJoined
    | EngineNotJoined
    | EngineLeft
    | EngineUnwanted
    | EngineOffered
    | GuestEnded
    | GuestLeft
)
"""Which engines come and go, and who leaves them."""

EngineNews = (
    StepOutput | EngineDied | EngineReplaced | EngineLeaving | EngineVerdict | GuestCall
)
"""What concerns an engine that is there."""

Received = EngineNews | EngineNumberNews | Reply


class EngineProcesses(Protocol):
    """The processes of engines that have their own; for any thread."""

    @property
    def links(self) -> LinkStats | None:
        """The connections to other machines; None if all engines run on this one."""
        ...

    def inspector(self, engine_index: int) -> ProcessInspector | None:
        """Returns a new inspector of the engine's process, if it is on this machine."""
        ...

    def returns(self, engine_index: int) -> bool:
        """Whether the engine comes back by itself, because another machine runs it."""
        ...

    def kill(self, engine_index: int, reason: str) -> None:
        """Kills the engine's process; `receive` reports the death with this reason."""
        ...

    def replace(self, engine_index: int, after_seconds: float) -> None:
        """Starts a new process for an engine whose death has been reported.

        `receive` reports its readiness, or another death.
        """
        ...

    def tell_death(self, death: EngineDied, *, is_replaced: bool) -> None:
        """Tells other clients that an engine has ended, and what comes of it."""
        ...

    def tell_verdict(self, verdict: EngineVerdict) -> None:
        """Tells other clients whether an engine works."""
        ...


class ElasticEngines(Protocol):
    """Starts and ends engines of a client that serves; for any thread."""

    def add(self, engine_index: int, num_blocks: int) -> None:
        """Begins to start an engine in the place of one that has ended, or of none.

        `receive` reports `EngineJoined` or `EngineNotJoined`.

        Args:
            engine_index: Its index.
            num_blocks: Number of KV blocks that it gets, as the others have.
        """
        ...

    def remove(self, engine_index: int) -> None:
        """Begins to end an engine, which may be starting, and to forget it.

        `receive` reports `EngineLeft` in the end.
        """
        ...

    def vacate(self, engine_index: int) -> None:
        """Has other clients leave an engine once they have nothing open there."""
        ...

    def keep(self, engine_index: int) -> None:
        """Offers an engine to other clients again, after `vacate`."""
        ...

    def guest_left(self, engine_index: int, client: int, number: int | None) -> None:
        """Takes note that another client has left an engine, or has been expelled.

        Args:
            engine_index: The engine, which tells it.
            client: Index of the client.
            number: Number of the wish that it fulfils; None if it has been expelled.
        """
        ...

    def is_vacated(self, engine_index: int) -> bool:
        """Whether no other client has anything open at an engine, after `vacate`."""
        ...


class EngineVisits(Protocol):
    """A client's stay at engines that another client owns; for any thread."""

    def leave(self, engine_index: int, number: int) -> None:
        """Leaves an engine where this client has nothing open, for the n-th wish."""
        ...

    def come_back(self, engine_index: int) -> None:
        """Begins to attach again to an engine that it has left.

        `receive` reports `EngineJoined`.
        """
        ...


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
        ...

    @property
    def processes(self) -> EngineProcesses | None:
        """The engines' processes; None if it has none or does not own them."""
        ...

    @property
    def hosts(self) -> Mapping[int, str]:
        """The machine of each engine that is, or was, on another one."""
        ...

    @property
    def elastic(self) -> ElasticEngines | None:
        """Starts and ends engines; None if their number is fixed."""
        ...

    @property
    def visits(self) -> EngineVisits | None:
        """Leaves engines and comes back; None for a client that owns them."""
        ...

    @property
    def dropped(self) -> int:
        """Number of messages dropped on either side, because they were not valid."""
        ...

    def send(self, engine_index: int, command: Command) -> None:
        """Sends a command to one engine without waiting.

        Raises:
            EngineDeadError: The engine is known to be dead, or this client is closed.
        """
        ...

    def receive(self, timeout_seconds: float) -> Received | None:
        """Waits for the next message of any engine; None if none came in time.

        A death is reported once, within a second, after all that the engine had sent.

        Raises:
            EngineDeadError: All engines are dead and reported and cannot be replaced,
                or this client is closed.
        """
        ...

    def close(self) -> None:
        """Ends the engines and everything they own; may be called twice."""
        ...
