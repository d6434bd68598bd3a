"""Tells the loggers of the requests of a front end that does not own its engines."""

from collections.abc import Mapping

import msgspec

from hookline.events import ClockPair, StepOutput
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import REQUESTS, Observing, RemotePages
from hookline.pages import RoutesOf
from hookline.payloads import EngineFacts, HttpAnswered, RecordsLogged
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_registry import LaneStats

_NOTHING = IterationStats()


class SecondaryClientObservers:
    """Reports this front end's requests only: the owner reports the engines.

    So loggers hear of each event once, however many front ends there are.
    """

    def __init__(self, observers: Observing) -> None:
        self._observers = observers
        self.address = observers.address
        self.requests_told = observers.requests_told
        self.listens = observers.listens

    @property
    def is_listening(self) -> bool:
        return self._observers.is_listening

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        return self._observers.lanes

    def add_routes(self, routes_of: RoutesOf) -> RemotePages | None:
        return self._observers.add_routes(routes_of)

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,  # noqa: ARG002 - the owner tells it
        *,
        restart_cause: str = "",  # noqa: ARG002
        resubmitted: int = 0,
    ) -> None:
        """Tells only of requests that the engine counts again."""
        if resubmitted:
            self._observers.observe(
                # Older than any state, so that it replaces none.
                StepOutput(facts.engine_index, 0, REQUESTS, SchedulerStats()),
                IterationStats(received_correction=-resubmitted),
                {},
            )

    def stopped(self, engine_index: int, reason: str) -> None:
        """Tells nothing."""

    def failed(
        self,
        engine_index: int,
        reason: str,
        open_requests: int,
        *,
        is_final: bool = True,
    ) -> None:
        """Tells nothing."""

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Passes an output on if it concerns a request of this front end."""
        if not output.events.have_requests and iteration == _NOTHING:
            return
        events = msgspec.structs.replace(output.events, cache_changes=None)
        part = msgspec.structs.replace(output, cause=REQUESTS, events=events)
        self._observers.observe(part, iteration, facts)

    def front_end_ended(self, ended: SecondaryClientEnded) -> None:
        """Tells nothing."""

    def http_answered(self, answered: HttpAnswered) -> None:
        self._observers.http_answered(answered)

    def front_end_changed(self, parts: tuple[FrontEndPart, ...]) -> None:
        self._observers.front_end_changed(parts)

    def records_logged(self, logged: RecordsLogged) -> None:
        self._observers.records_logged(logged)

    def flush(self, timeout_seconds: float) -> bool:
        return self._observers.flush(timeout_seconds)

    def close(self, timeout_seconds: float) -> bool:
        return self._observers.close(timeout_seconds)
