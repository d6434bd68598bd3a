"""The sides of an engine that drafts."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hookline.clock import Clock
from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.worker.extension import WorkerContext, WorkerSide
from hookline.exceptions import ConfigError
from hookline.payloads import ExtensionContext
from hookline.step import ModelShape
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.loading import load_proposer, settle_drafts
from hookline_drafting.scheduler_side import DraftingScheduler, StagedDrafting

if TYPE_CHECKING:  # only the executor `simulated` needs it
    from hookline_simulated.simulation import SimulatedStep


class DraftingExtension:
    """Makes the sides; one a process."""

    def __init__(
        self, context: ExtensionContext, speculative: SpeculativeConfig
    ) -> None:
        """Loads nothing yet: only some processes need the proposer.

        Raises:
            ConfigError: Steps would be planned before their drafts are known.
        """
        if context.config.scheduler.async_scheduling:
            raise ConfigError(
                OPTION,
                "cannot be combined with async-scheduling: drafts depend on the "
                "previous step's tokens, so no step can be scheduled ahead",
            )
        self._context, self._speculative = context, speculative
        self._closing: list[Callable[[], None]] = []

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        if self._context.config.parallel.pipeline_parallel_size > 1:
            return StagedDrafting(self._closing)
        return DraftingScheduler(self._closing)

    def worker_side(self, context: WorkerContext) -> WorkerSide:
        """Implements `WorkerExtension`.

        Raises:
            ConfigError: The proposer cannot be loaded, or does not fit the options.
        """
        from hookline_drafting.worker_side import DraftingWorker  # noqa: PLC0415

        return DraftingWorker(self._context, self._speculative, drafts=context.samples)

    def simulated(
        self, shape: ModelShape, clock: Clock
    ) -> Callable[["SimulatedStep"], None]:
        """Implements `SimulatedExtension`.

        Raises:
            ConfigError: The proposer cannot be loaded, or needs a model.
        """
        from hookline_drafting.control import DraftControl  # noqa: PLC0415
        from hookline_drafting.guard import ProposerGuard  # noqa: PLC0415
        from hookline_drafting.simulated import SimulatedDrafting  # noqa: PLC0415

        proposer = load_proposer(self._context, self._speculative)
        speculative = settle_drafts(self._speculative, proposer)
        guard = ProposerGuard(proposer, speculative, vocab_size=shape.vocab_size)
        self._closing.append(guard.close)
        return SimulatedDrafting(
            guard,
            DraftControl.of(speculative),
            clock,
            max_model_len=shape.max_model_len,
        )
