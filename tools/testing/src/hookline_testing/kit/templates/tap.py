"""Tap `sample`: counts what an engine is told, decides and answers.

Each installed tap is asked whenever an engine starts.
"""

import logging

from hookline import hookimpl
from hookline.engine.commands import Command, EngineMessage
from hookline.engine.tap import TapContext
from hookline.stats.step_work import Obstacle
from hookline.step import StepPlan, StepResult

LOGGER = logging.getLogger(__name__)


class SampleTap:
    """Counts, on the engine's thread: it must be fast."""

    def __init__(self) -> None:
        self._num_commands = self._num_steps = self._num_outputs = 0

    def command(self, at: int, command: Command) -> None:
        """Called with each command, at a time in ns of the engine's clock."""
        del at, command
        self._num_commands += 1

    def planned(self, at: int, plan: StepPlan) -> None:
        """Called with each plan of a step."""
        del at, plan
        self._num_steps += 1

    def blocked(self, at: int, obstacle: Obstacle) -> None:
        """Called when requests wait and no step can be planned."""

    def gated(self, at: int, request_id: int, gate: str) -> None:
        """Called when a request has to wait at a gate; empty once it need not."""

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        """Called with each result."""

    def output(self, at: int, message: EngineMessage) -> None:
        """Called with each output."""
        del at, message
        self._num_outputs += 1

    def close(self, error: BaseException | None) -> None:
        """Called once, of an error or of None."""
        del error
        counts = self._num_commands, self._num_steps, self._num_outputs
        LOGGER.info("%d commands, %d steps, %d outputs", *counts)


@hookimpl
def create_tap(context: TapContext) -> SampleTap:
    """Called in the engine's process."""
    del context
    return SampleTap()
