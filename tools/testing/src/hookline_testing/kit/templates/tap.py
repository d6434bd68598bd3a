"""Tap `sample`: counts what an engine decides, and how often it computes.

Each engine asks every tap that is installed; return None if nothing asks for this one.
"""

import logging

from hookline import hookimpl
from hookline.engine.commands import Command, EngineMessage
from hookline.engine.tap import TapContext
from hookline.stats.step_work import Obstacle
from hookline.step import StepPlan, StepResult

LOGGER = logging.getLogger(__name__)


class SampleTap:
    """Counts, on the engine's thread: it must be fast, and change nothing it gets."""

    def __init__(self, engine_index: int) -> None:
        self._engine_index = engine_index
        self._num_commands = self._num_steps = self._num_tokens = 0

    def command(self, at: int, command: Command) -> None:
        """Called with each command, at a time in ns of the engine's clock."""
        del at, command
        self._num_commands += 1

    def planned(self, at: int, plan: StepPlan) -> None:
        """Called with each plan, before it is computed."""
        del at
        self._num_tokens += sum(plan.num_tokens)

    def blocked(self, at: int, obstacle: Obstacle) -> None:
        """Called when requests wait and no step can be planned."""

    def gated(self, at: int, request_id: int, gate: str) -> None:
        """Called when a request has to wait at a gate; empty once it need not."""

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        """Called with each result, before the engine takes it in."""
        del at, plan, result
        self._num_steps += 1

    def output(self, at: int, message: EngineMessage) -> None:
        """Called with each output, before it is sent."""
        del at, message

    def close(self, error: BaseException | None) -> None:
        """Called once, with what has ended the engine if it has failed."""
        counts = self._num_commands, self._num_steps, self._num_tokens
        text = "engine %d: %d commands, %d steps, %d tokens, error %r"
        LOGGER.info(text, self._engine_index, *counts, error)


@hookimpl
def create_tap(context: TapContext) -> SampleTap:
    """Called in the engine's process."""
    return SampleTap(context.config.engine_index)
