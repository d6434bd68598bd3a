"""Stands before the loggers of a front end, and passes on what they are told."""

from collections.abc import Collection, Mapping

from hookline.events import ClockPair, StepOutput
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import Observing, RemotePages, TellFirst
from hookline.pages import RoutesOf
from hookline.payloads import EngineFacts, EngineFailed, HttpAnswered, RecordsLogged
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_registry import LaneStats


class ForwardingObservers:
    """Loggers behind something that changes, or listens to, what they are told."""

    def __init__(self, observers: Observing) -> None:
        """Passes everything on to these loggers."""
        self._observers = observers
        self.address = observers.address
        self.observed_requests = observers.observed_requests
        self.listens = observers.listens

    @property
    def is_listening(self) -> bool:
        return self._observers.is_listening

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        return self._observers.lanes

    def add_routes(
        self, routes_of: RoutesOf, tell_first: TellFirst | None = None
    ) -> RemotePages | None:
        return self._observers.add_routes(routes_of, tell_first)

    def settle(self, logger: str) -> float:
        return self._observers.settle(logger)

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
    ) -> None:
        self._observers.started(
            facts, clock, restart_cause=restart_cause, resubmitted=resubmitted
        )

    def stopped(self, engine_index: int, reason: str) -> None:
        self._observers.stopped(engine_index, reason)

    def failed(
        self,
        failed: EngineFailed,
        received: int | None = None,
        waiting: Collection[int] = (),
    ) -> None:
        self._observers.failed(failed, received, waiting)

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        self._observers.observe(output, iteration, facts)

    def front_end_ended(self, ended: SecondaryClientEnded) -> None:
        self._observers.front_end_ended(ended)

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
