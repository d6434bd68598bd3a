"""The sides of an engine that embeds."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hookline.clock import Clock
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.engine.worker.extension import WorkerContext, WorkerSide
from hookline.finish_cause import Embedded
from hookline.frozen import frozen_map
from hookline.payloads import EngineFacts
from hookline.pooling import POOLING
from hookline.step import ModelShape
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import RESULT
from hookline_pooling.simulated import simulated_vectors

if TYPE_CHECKING:  # only the executor `simulated` needs it
    from hookline_simulated.simulation import FollowSimulation, SimulatedStep


class PoolingExtension:
    """Makes the sides; one a process."""

    def __init__(self, facts: PoolingFacts) -> None:
        self._facts = facts

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        return PoolingScheduler(self._facts)

    def worker_side(self, context: WorkerContext) -> WorkerSide | None:
        """Implements `WorkerExtension`."""
        if not context.has_hidden_states:
            return None
        from hookline_pooling.pooler import Pooler  # noqa: PLC0415 - needs torch

        return Pooler()

    def simulated(self, shape: ModelShape, clock: Clock) -> "FollowSimulation":
        """Implements `SimulatedExtension`."""
        del shape, clock
        return self._follow

    def _follow(self, step: "SimulatedStep") -> None:
        vectors = simulated_vectors(step.prefilled, self._facts)
        if vectors is not None:
            step.sections[POOLING] = vectors


class PoolingScheduler(SchedulerSide):
    """Ends requests whose prompts have been pooled."""

    def __init__(self, facts: PoolingFacts) -> None:
        self._facts = facts

    def describe(self, facts: EngineFacts) -> EngineFacts:
        """Tells how it pools."""
        return replace(
            facts, sections=frozen_map({**facts.sections, POOLING: self._facts})
        )

    def start(self, port: SchedulerPort) -> None:
        self._port = port

    def update(self, section: object, now: int) -> None:
        """Gives the vectors of a step to the clients."""
        for request_id, vectors in RESULT.typed(section).vectors.items():
            self._port.complete(request_id, Embedded(), vectors, now)
