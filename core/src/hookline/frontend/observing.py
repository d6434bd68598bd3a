"""What a front end needs of its loggers, in this process or in another one."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hookline.config.engine import EngineConfig
from hookline.events import ClockPair, StepOutput
from hookline.front_end_parts import FrontEndPart
from hookline.pages import PageRoute, RoutesOf
from hookline.payloads import EngineFacts, EngineFailed, HttpAnswered, RecordsLogged
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_registry import LaneStats

REQUESTS = "requests"
"""Cause of an output with requests alone, of a front end that does not own its engines.

Its scheduler state is older than the one that their owner reports."""


REQUEST_HOOKS: Mapping[str, str] = {
    "queued": "requests_queued",
    "scheduled": "requests_scheduled",
    "preempted": "requests_preempted",
    "new_tokens": "tokens_generated",
    "finished": "requests_finished",
}
"""Hooks that pass the request events of an output to loggers, by their field in it."""
OUTPUT_HOOKS = frozenset(
    (*REQUEST_HOOKS.values(), "cache_changed", "step_finished", "state_changed")
)
"""All hooks that are called because of an output."""


TellFirst = Callable[[float], float]
"""Tells news within some seconds; returns the age of the oldest that is left, or 0."""


@dataclass(frozen=True, slots=True)
class ObserverAddress:
    """How to reach an observer process.

    Attributes:
        folder: Folder of its sockets, which only this user may enter.
        key: Secret of the messages from and to it.
        index: Number of the front end among those that it serves, from 0.
    """

    folder: Path
    key: bytes
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverContext:
    """What the plugin of the observer process needs to connect a front end to one.

    Attributes:
        config: The engine's configuration, with the loggers.
        pages: `module:attribute` of what serves the loggers' pages in that process, as
            the plugin describes it; empty if nobody serves them.
        address: A process that another front end owns; None to start one.
    """

    config: EngineConfig
    pages: str = ""
    address: ObserverAddress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderContext:
    """What a recorder of metrics is made from.

    Attributes:
        config: The engine's configuration, with the choice of metrics.
    """

    config: EngineConfig


class RemotePages(Protocol):
    """The pages of loggers in another process.

    Attributes:
        socket: Path of the UNIX socket on which that process serves them.
        routes: The pages, in the order in which they were registered.
        paths: The paths as loggers have registered them.
    """

    @property
    def socket(self) -> str: ...

    @property
    def routes(self) -> tuple[PageRoute, ...]: ...

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def obstacle(self) -> str | None:
        """Why the process does not answer, as far as that is known; else None."""

    def obstacle_of(self, route: PageRoute) -> str | None:
        """Why a page cannot be served, as far as that is known; else None."""


class Observing(Protocol):
    """Passes what happens to the loggers; no method waits for one, but the last two.

    `records_logged` may be called in any thread, the others in the front end's.

    Attributes:
        is_listening: Whether anybody listens.
        address: How other front ends reach the same loggers; None if they are in this
            process.
    """

    @property
    def is_listening(self) -> bool: ...

    @property
    def address(self) -> ObserverAddress | None: ...

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        """State of each logger's lane in this process."""

    def listens(self, hook: str) -> bool:
        """Whether any logger implements the hook."""

    def add_routes(
        self, routes_of: RoutesOf, tell_first: TellFirst | None = None
    ) -> RemotePages | None:
        """Lets each logger register its pages; returns those of another process.

        Whoever makes them calls `settle` first, and that calls `tell_first`.
        """

    def settle(self, logger: str) -> float:
        """Has a logger get all, in any thread; returns the age of what is missing."""

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
    ) -> None:
        """Tells that an engine is ready, for the first time or again."""

    def stopped(self, engine_index: int, reason: str) -> None:
        """Tells that an engine has been closed."""

    def failed(
        self,
        failed: EngineFailed,
        received: int | None = None,
        waiting: Collection[int] = (),
    ) -> None:
        """Tells that an engine has ended unexpectedly.

        Its totals have `received` of the requests that were in flight; None if it never
        ran. Those with the ids in `waiting` wait for its replacement.
        """

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Passes one step, or one state, on."""

    def observed_requests(self, output: StepOutput) -> set[int]:
        """Ids of the requests whose facts `observe` needs with this output."""

    def front_end_ended(self, ended: SecondaryClientEnded) -> None:
        """Reports what another front end may not have reported before it ended."""

    def http_answered(self, answered: HttpAnswered) -> None:
        """Passes answered HTTP requests on."""

    def front_end_changed(self, parts: tuple[FrontEndPart, ...]) -> None:
        """Passes the state of changed parts of the front end on."""

    def records_logged(self, logged: RecordsLogged) -> None:
        """Passes records of the log on."""

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until every logger is up to date; False if one is not in time."""

    def close(self, timeout_seconds: float) -> bool:
        """Waits for the loggers to process everything; False on timeout."""


def request_ids_for_hooks(
    output: StepOutput, listens: Callable[[str], bool]
) -> set[int]:
    """Returns the ids of requests in those events of an output that loggers receive.

    Args:
        output: Output of an engine.
        listens: Whether any logger implements a hook.
    """
    request_ids: set[int] = set()
    for name, hook in REQUEST_HOOKS.items():
        if (events := getattr(output.events, name)) and listens(hook):
            request_ids.update(event.request_id for event in events)
    if output.events.preempted and listens("requests_preempted"):
        others = (event.beneficiary_id for event in output.events.preempted)
        request_ids.update(each for each in others if each is not None)
    return request_ids
