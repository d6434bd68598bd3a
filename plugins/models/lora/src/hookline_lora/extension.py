"""The extension: makes the sides of an engine that serves adapters."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.worker.extension import WorkerContext, WorkerSide
from hookline.exceptions import ConfigError
from hookline.request import Request
from hookline.step import ModelShape
from hookline_lora.config import LoraConfig
from hookline_lora.pacing import Pacing
from hookline_lora.scheduler.describing import Describe
from hookline_lora.scheduler.side import LoraScheduler

if TYPE_CHECKING:  # only the executor `simulated` needs it
    from hookline_simulated.simulation import FollowSimulation


class LoraExtension:
    """Makes the sides of an engine, or of a rank in a process of its own."""

    def __init__(self, lora: LoraConfig, config: EngineConfig) -> None:
        """Keeps what the sides need.

        Args:
            lora: How adapters are served.
            config: The engine's configuration.

        Raises:
            ConfigError: Main memory has fewer places than a step.
        """
        if lora.max_cpu_loras is not None and lora.max_cpu_loras < lora.max_loras:
            raise ConfigError(
                "max-cpu-loras",
                f"must be at least max-loras, which is {lora.max_loras}",
            )
        self._lora = lora
        self._config = config

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        has_priorities = self._config.scheduler.has_priorities
        priority = _priority if has_priorities else _no_priority
        pacing = Pacing()
        describer_of = partial(self._describer, pacing)
        return LoraScheduler(self._lora, describer_of, priority, pacing)

    def _describer(self, pacing: Pacing, shape: ModelShape) -> Describe:
        from hookline_lora.describer import describer  # noqa: PLC0415 - needs numpy

        return describer(self._lora, shape, self._config.model.model, pacing)

    def worker_side(self, context: WorkerContext) -> WorkerSide | None:
        """Implements `WorkerExtension`: each rank computes the part of its layers."""
        del context
        from hookline_lora.worker.side import LoraWorker  # noqa: PLC0415 - needs torch

        return LoraWorker(self._config, self._lora)

    def join_ranks(self, num_ranks: int) -> Callable[[Sequence[object]], object]:
        """Implements `JoinedExtension`."""
        from hookline_lora.joined_reports import join_reports  # noqa: PLC0415

        return join_reports(num_ranks)

    def simulated(self, shape: ModelShape, clock: Clock) -> "FollowSimulation":
        """Implements `SimulatedExtension`."""
        from hookline_lora.simulated import SimulatedAdapters  # noqa: PLC0415

        return SimulatedAdapters(self._config, self._lora, shape, clock)


def _priority(request: Request) -> int:
    return request.facts.priority


def _no_priority(request: Request) -> int:
    del request
    return 0
