"""The messages between front ends and the observer process."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from hookline.config import EngineConfig
from hookline.events import ClockPair, Finished, StepOutput
from hookline.front_end_parts import FrontEndPart
from hookline.frozen import frozen_json, plain
from hookline.pages import PageRoute
from hookline.payloads import EngineFacts, HttpExchange, RecordsLogged
from hookline.request import RequestFacts
from hookline.stats.finished_request import FinishedGroup
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics.front_end_parts import PARTS


class Started(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An engine is ready; see `EngineStarted`.

    Attributes:
        since: Time on the engine's clock up to which requests that have ended are part
            of `ended_before`, so that their ends are not told; -1 if it starts now.
    """

    facts: EngineFacts
    clock: ClockPair
    restart_cause: str = ""
    resubmitted: int = 0
    ended_before: int = 0
    since: int = -1


class Stopped(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An engine was closed; see `EngineStopped`."""

    engine_index: int
    reason: str


class Failed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An engine has ended unexpectedly; see `EngineFailed`.

    Attributes:
        received: Number of the front end's requests in flight that the engine's totals
            include; None if no process of it ran.
        waiting: Ids of those that wait for its replacement.
    """

    engine_index: int
    reason: str
    open_requests: int
    is_final: bool
    received: int | None = None
    waiting: tuple[int, ...] = ()


class Observed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """One step or state of an engine, with what its front end made of it.

    Attributes:
        output: The output, without events of which no logger is told.
        iteration: Its statistics; without `finished_groups` if there are `groups`.
        facts: Facts of the requests that loggers are told of one by one.
        groups: The finished groups, each by the positions of its requests in
            `iteration.finished`, so that none is sent twice.
    """

    output: StepOutput
    iteration: IterationStats
    facts: dict[int, RequestFacts]
    groups: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def made_of(
        cls,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> "Observed":
        """Returns the message; what it shares with its arguments is not changed."""
        groups = iteration.finished_groups
        place = {id(each): at for at, each in enumerate(iteration.finished)}
        if not groups or not all(
            id(each) in place for group in groups for each in group.requests
        ):  # or some completions of a group have ended before
            return cls(output, iteration, dict(facts))
        places = tuple(
            tuple(place[id(each)] for each in group.requests) for group in groups
        )
        rest = replace(iteration, finished_groups=())
        return cls(output, rest, dict(facts), places)

    @property
    def whole_iteration(self) -> IterationStats:
        """The statistics with all finished groups; nothing in them can be changed."""
        sections = frozen_json(self.iteration.sections)
        if not self.groups:
            return replace(self.iteration, sections=sections)
        finished = self.iteration.finished
        groups = tuple(
            FinishedGroup(requests=tuple(finished[at] for at in places))
            for places in self.groups
        )
        return replace(self.iteration, finished_groups=groups, sections=sections)


class Ended(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Another front end has ended; its engines' owner tells it, for each engine.

    Attributes:
        engine_index: The engine.
        front_end: Index of the front end.
        recent: The latest ends of its requests, which it may not have told.
    """

    engine_index: int
    front_end: int
    recent: list[Finished]


class Answered(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """HTTP requests; see `HttpAnswered`.

    Attributes:
        in_flight: Route, method and number.
    """

    exchanges: tuple[HttpExchange, ...]
    in_flight: tuple[tuple[str, str, int], ...]
    missed: int


class Changed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Parts of the front end that have changed, each by the name of its class."""

    parts: tuple[tuple[str, msgspec.Raw], ...]


class Logged(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Records of the server's log."""

    logged: RecordsLogged


Notice = Started | Stopped | Failed | Observed | Ended | Answered | Changed | Logged
"""What a front end reports to the loggers."""


class Join(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A front end asks to be heard; it repeats this until the observer is ready.

    Attributes:
        pid: Its process, whose end ends its part in all numbers.
    """

    pid: int


class Notices(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What happened in the last tenth of a second, in order.

    Attributes:
        pid: The front end's process, whose end ends its part in all numbers.
        dropped: Notices that the front end has dropped since its start, because the
            observer process did not take them.
        waited_seconds: How long the oldest of these waited in the front end.
        notices: The notices.
    """

    pid: int
    dropped: int
    waited_seconds: float
    notices: list[Notice]


class EncodedNotices(msgspec.Struct, frozen=True, tag="Notices", array_like=True):
    """`Notices` as a front end sends them: each was encoded when it happened."""

    pid: int
    dropped: int
    waited_seconds: float
    notices: list[msgspec.Raw]


class Flush(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Asks for `Flushed` once all loggers are up to date, or the time is over."""

    number: int
    timeout_seconds: float


class Told(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The reply to `Tell`, after the notices of what had happened.

    Attributes:
        number: That of the `Tell`.
        behind_seconds: Age of the oldest news that there was no time to tell; 0 if
            there is none.
    """

    number: int
    behind_seconds: float


class Leave(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A front end ends, as planned."""


ToObserver = Join | Notices | Flush | Told | Leave


class Alive(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The observer is ready; sent to each front end, again and again.

    Attributes:
        incarnation: Number of this observer process among those of its owner.
        hooks: Names of the hooks that loggers implement.
        routes: The loggers' pages.
        paths: Their paths as loggers have registered them.
        left_out: Loggers that have ended the process, and do not run any more.
    """

    incarnation: int
    hooks: tuple[str, ...]
    routes: tuple[PageRoute, ...] = ()
    paths: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Flushed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The reply to `Flush`; whether all loggers were up to date in time."""

    number: int
    is_complete: bool


class Tell(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Asks a front end to send at once what has happened, since a page is to be made.

    Attributes:
        number: Comes back in `Told`.
        seconds: How long the front end may wait for what it does not know yet.
    """

    number: int
    seconds: float


ToFrontEnd = Alive | Flushed | Tell


class Begin(msgspec.Struct, frozen=True):
    """The first words of the owner.

    Attributes:
        key: Secret of all messages from and to it.
        incarnation: Its number, from 1.
        config: The engine's configuration.
        pages: `module:attribute` of what serves the loggers' pages; empty for none.
        left_out: Loggers that have ended the process, and do not run any more.
        set_aside: Loggers that do not run for the present.
        suspects: Loggers that take turns.
    """

    key: bytes
    incarnation: int
    config: EngineConfig
    pages: str = ""
    left_out: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    suspects: frozenset[str] = frozenset()


class Begun(msgspec.Struct, frozen=True):
    """The reply to `Begin`.

    Attributes:
        kind: Empty if the loggers run; otherwise why they do not: `config` or
            `registry`.
        subject: The option, if it is `config`.
        detail: The error.
    """

    kind: str = ""
    subject: str = ""
    detail: str = ""


_part_encoder = msgspec.msgpack.Encoder(enc_hook=plain)


def changed(parts: tuple[FrontEndPart, ...]) -> Changed:
    """Returns the message with these parts."""
    return Changed(
        tuple(
            (type(part).__name__, msgspec.Raw(_part_encoder.encode(part)))
            for part in parts
        )
    )


def parts_of(message: Changed) -> tuple[FrontEndPart, ...]:
    """Returns the parts of a message; raises `ValueError` for unknown ones."""
    found: list[FrontEndPart] = []
    for name, state in message.parts:
        if (kind := PARTS.get(name)) is None:
            raise ValueError(f"{name} is no part of a front end")
        found.append(msgspec.msgpack.decode(state, type=kind))
    return tuple(found)
