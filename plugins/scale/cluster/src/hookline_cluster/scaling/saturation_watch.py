"""Follows the saturation of each engine beside the loggers."""

from collections.abc import Mapping

from hookline.events import ClockPair, StepOutput
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import Observing, RemotePages
from hookline.pages import RoutesOf
from hookline.payloads import (
    EngineFacts,
    HttpAnswered,
    RecordsLogged,
    StateChanged,
    StepFinished,
)
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_cluster.clients.other_clients_load import OTHERS_WORK
from hookline_metrics.saturation import Saturation
from hookline_registry import LaneStats


class SaturationWatch:
    """Loggers, and the `hookline_saturation_ratio` of each engine that runs.

    It is computed from what loggers receive, as on `/metrics`, but without their delay.
    """

    def __init__(self, observers: Observing) -> None:
        """Follows engines, and passes on to the loggers what it receives."""
        self._observers = observers
        self._saturations: dict[int, Saturation] = {}
        self.address = observers.address
        self.requests_told = observers.requests_told
        self.listens = observers.listens

    def value(self, engine_index: int) -> float:
        """Returns an engine's saturation; 0 if it does not run."""
        saturation = self._saturations.get(engine_index)
        return 0.0 if saturation is None else saturation.value()

    @property
    def is_listening(self) -> bool:
        return True

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        return self._observers.lanes

    def add_routes(self, routes_of: RoutesOf) -> RemotePages | None:
        return self._observers.add_routes(routes_of)

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
    ) -> None:
        self._saturations[facts.engine_index] = Saturation(facts)
        self._observers.started(
            facts, clock, restart_cause=restart_cause, resubmitted=resubmitted
        )

    def stopped(self, engine_index: int, reason: str) -> None:
        self._saturations.pop(engine_index, None)
        self._observers.stopped(engine_index, reason)

    def failed(
        self,
        engine_index: int,
        reason: str,
        open_requests: int,
        *,
        is_final: bool = True,
    ) -> None:
        self._saturations.pop(engine_index, None)
        self._observers.failed(engine_index, reason, open_requests, is_final=is_final)

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Passes an output on, and counts it."""
        if (saturation := self._saturations.get(output.engine_index)) is not None:
            if output.record is not None:
                saturation.step(_step(output, iteration))
            else:
                saturation.state(_state(output, iteration))
            if output.sections and (others := OTHERS_WORK.read(output.sections)):
                saturation.others(others)
        if self._observers.is_listening:
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


def _step(output: StepOutput, iteration: IterationStats) -> StepFinished:
    assert output.record is not None
    return StepFinished(
        engine_index=output.engine_index,
        record=output.record,
        iteration=iteration,
        scheduler=output.stats,
    )


def _state(output: StepOutput, iteration: IterationStats) -> StateChanged:
    return StateChanged(
        engine_index=output.engine_index,
        cause=output.cause,
        at=output.at,
        scheduler=output.stats,
        iteration=iteration,
    )
