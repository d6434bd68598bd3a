"""The parts of a front end that servers and extensions report, and a list of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hookline.front_end_parts import (
    FrontEndPart,
    PlacementStats,
    SleepOperation,
    TransportStats,
)
from hookline_processes.usage import RoleUsage

TextQueueName = Literal["text", "chat", "long"]
"""A kind of text work: short texts, conversations, or long texts of either kind."""

ParserKind = Literal["tool", "reasoning"]
"""What a parser of replies finds."""
RepairKind = Literal[
    "character",
    "escape",
    "quote",
    "literal",
    "comma",
    "bracket",
    "cut",
    "shape",
    "dialect",
    "markup",
    "tag",
    "reasoning",
]
"""What was mended in the text of a reply: the first eight in the JSON of arguments."""

ResponseEviction = Literal["count", "bytes", "age"]
"""The bound because of which a stored response was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHealth(FrontEndPart):
    """Whether an engine works, as the front end sees it; sent while it does not.

    Attributes:
        engine_index: Index of the engine.
        stalled_seconds: How long it has not done what it should; None once it works.
        reason: What it does not do; empty once it works.
        unheard: Number of requests sent to it that it has not confirmed.
        oldest_unheard_seconds: Age of the oldest of them, or 0.
    """

    engine_index: int
    stalled_seconds: float | None
    reason: str
    unheard: int
    oldest_unheard_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStats(FrontEndPart):
    """Log lines of the server that were not written.

    Attributes:
        unread: Lines dropped because nobody read the log, since the start.
        repeated: Lines left out because one place logged too many, since the start.
    """

    unread: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStats(FrontEndPart):
    """Connections of a server's clients.

    Attributes:
        open: Number of open connections.
        maximum: Maximum number of open connections.
        accept_errors: Failures to accept a connection, since the start.
        closed: Connections that the server closed and the client did not want closed,
            by reason, since the start.
    """

    open: int
    maximum: int
    accept_errors: int = 0
    closed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQueueStats:
    """State of one kind of text work.

    Attributes:
        queue: The kind.
        waiting: Jobs that wait or are worked on.
        jobs: Jobs done.
        seconds: Time that they took in the text process.
        exceeded: Text processes replaced because a job exceeded its time.
        crashed: Text processes replaced because they ended.
    """

    queue: TextQueueName
    waiting: int = 0
    jobs: int = 0
    seconds: float = 0.0
    exceeded: int = 0
    crashed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStats(FrontEndPart):
    """State of a front end's text processes.

    Attributes:
        queues: The state of each kind of text work.
    """

    queues: tuple[TextQueueStats, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserFailures(FrontEndPart):
    """Failures of a server's parsers of tool calls and reasoning, and what they mended.

    Attributes:
        failures: Kind, name and number of failures of each parser, since the start.
        repairs: Kind and name of a parser, what was mended in the texts of its replies,
            and how often.
    """

    failures: tuple[tuple[ParserKind, str, int], ...]
    repairs: tuple[tuple[ParserKind, str, RepairKind, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStats(FrontEndPart):
    """The streamed responses of a server.

    Attributes:
        keep_alives: Number of comments and pings in streams that waited, since the
            start.
    """

    keep_alives: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFieldStats(FrontEndPart):
    """Fields of requests' bodies that a server ignored.

    Attributes:
        fields: Name and number of requests with it, since the start; names beyond the
            first 31 count together as `other`.
    """

    fields: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredStats(FrontEndPart):
    """What a server could not use of requests, and left out.

    Attributes:
        elements: API, kind and number of elements, since the start.
    """

    elements: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStoreStats(FrontEndPart):
    """Responses that a server keeps for requests that continue them.

    Attributes:
        entries: Number of responses.
        bytes: Memory that they take, about.
        evictions: Number of responses dropped because there were too many, because they
            were too large, or because of their age, by reason, since the start.
    """

    entries: int = 0
    bytes: int = 0
    evictions: tuple[tuple[ResponseEviction, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyStats(FrontEndPart):
    """State of a server's file of API keys.

    Attributes:
        stale_seconds: For how long the file could not be read, so that the keys of
            before are valid; 0 while it can be read, and without one.
    """

    stale_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLoopStats(FrontEndPart):
    """How late the event loop of a server runs its callbacks.

    Attributes:
        lag_seconds: Maximum delay of a callback in the last ten seconds.
        stalls: Number of times that a callback was over a second late.
    """

    lag_seconds: float = 0.0
    stalls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats(FrontEndPart):
    """Main memory of the control group of a server.

    Attributes:
        headroom_bytes: What can still be taken; None if the system does not tell.
        used_bytes: What is in use and cannot be dropped; None without a limit.
        kills: Processes that the kernel killed for lack of memory, since the start.
    """

    headroom_bytes: int | None = None
    used_bytes: int | None = None
    kills: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStats(FrontEndPart):
    """What the processes of a server take of their machines.

    Attributes:
        roles: What those of each role take.
        are_elsewhere: Whether they are those of engines on other machines.
    """

    roles: tuple[RoleUsage, ...] = ()
    are_elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLink:
    """The connection to an engine on another machine.

    Attributes:
        engine_index: Index of the engine.
        host: Name of its machine; empty until it has joined once.
        former_hosts: The latest other machines that ran it before.
        is_up: Whether the engine is there and ready.
        joined: Number of processes that became this engine, since the start.
        lost: Number of times that its connection was lost, since the start.
        round_trip_seconds: Time from the latest ping to its answer, which the engine
            gives between two steps; None while it is not there.
        processes: What its processes take there, by their roles.
    """

    engine_index: int
    host: str = ""
    former_hosts: tuple[str, ...] = ()
    is_up: bool = False
    joined: int = 0
    lost: int = 0
    round_trip_seconds: float | None = None
    processes: tuple[RoleUsage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStats(FrontEndPart):
    """Connections to engines on other machines.

    Attributes:
        engines: The connection to each.
        refused: Connections to the port that ended before they had proved a key, since
            the start.
    """

    engines: tuple[EngineLink, ...] = ()
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress(FrontEndPart):
    """Where a server listens; sent once.

    Attributes:
        host: Address of the API, or the machine's name if it listens on all addresses;
            the path if it listens on a file.
        port: Port of the API; 0 of a file.
    """

    host: str
    port: int


ScalingCause = Literal[
    "request", "steady", "demand", "trend", "quiet", "minimum", "maximum"
]
"""Why a number of engines was chosen: by a call of `/scale`, or by the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingStats(FrontEndPart):
    """The number of a front end's engines, and how it has changed.

    Attributes:
        serving: Engines that get requests.
        starting: Engines that load their model.
        leaving: Engines that finish their requests and end.
        wanted: Number of engines that was chosen last.
        minimum: Least number that is chosen; None if the load chooses none.
        maximum: Greatest number, likewise.
        decisions: Why a number was chosen, and how often, since the start.
        added: Engines that joined, since the start.
        removed: Engines that left, since the start.
        failed: Engines that could not be started, since the start.
        start_seconds: Time that those that joined took to start, in sum.
    """

    serving: int = 0
    starting: int = 0
    leaving: int = 0
    wanted: int = 0
    minimum: int | None = None
    maximum: int | None = None
    decisions: tuple[tuple[ScalingCause, int], ...] = ()
    added: int = 0
    removed: int = 0
    failed: int = 0
    start_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverStats(FrontEndPart):
    """The observer process of one or several front ends.

    Attributes:
        front_ends: Number of front ends that it observes.
        waited_seconds: How long the oldest of a front end's latest notices waited
            there before they were sent; of several front ends the longest.
        dropped: Notices that front ends dropped, because the process did not take them,
            since its start.
        restarts: How often the process has been replaced.
        left_out: Loggers that do not run any more, because they have ended it.
    """

    front_ends: int = 0
    waited_seconds: float = 0.0
    dropped: int = 0
    restarts: int = 0
    left_out: tuple[str, ...] = ()


PARTS: Mapping[str, type[FrontEndPart]] = {
    kind.__name__: kind
    for kind in (
        LogStats,
        ConnectionStats,
        TextStats,
        ParserFailures,
        StreamStats,
        UnknownFieldStats,
        IgnoredStats,
        ResponseStoreStats,
        ApiKeyStats,
        EventLoopStats,
        MemoryStats,
        ProcessStats,
        TransportStats,
        LinkStats,
        PlacementStats,
        EngineHealth,
        SleepOperation,
        ServerAddress,
        ScalingStats,
        ObserverStats,
    )
}
"""Every kind of part by its name, which processes write in front of it."""
