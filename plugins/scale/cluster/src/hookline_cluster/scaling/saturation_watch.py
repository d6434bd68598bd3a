"""Follows the saturation of each engine beside the loggers."""

from collections.abc import Collection, Mapping

from hookline.events import ClockPair, StepOutput
from hookline.frontend.observing import Observing
from hookline.payloads import (
    EngineFacts,
    EngineFailed,
    StateChanged,
    StepFinished,
)
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline_cluster.clients.other_clients_load import OTHERS_WORK
from hookline_cluster.forwarding_observers import ForwardingObservers
from hookline_metrics.saturation import Saturation


class SaturationWatch(ForwardingObservers):
    """Loggers, and the `hookline_saturation_ratio` of each engine that runs.

    It is computed from what loggers receive, as on `/metrics`, but without their delay.
    """

    def __init__(self, observers: Observing) -> None:
        """Follows engines, and passes on to the loggers what it receives."""
        super().__init__(observers)
        self._saturations: dict[int, Saturation] = {}

    def value(self, engine_index: int) -> float:
        """Returns an engine's saturation; 0 if it does not run."""
        saturation = self._saturations.get(engine_index)
        return 0.0 if saturation is None else saturation.value()

    @property
    def is_listening(self) -> bool:
        return True

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
    ) -> None:
        self._saturations[facts.engine_index] = Saturation(facts)
        super().started(
            facts, clock, restart_cause=restart_cause, resubmitted=resubmitted
        )

    def stopped(self, engine_index: int, reason: str) -> None:
        self._saturations.pop(engine_index, None)
        super().stopped(engine_index, reason)

    def failed(
        self,
        failed: EngineFailed,
        received: int | None = None,
        waiting: Collection[int] = (),
    ) -> None:
        self._saturations.pop(failed.engine_index, None)
        super().failed(failed, received, waiting)

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
