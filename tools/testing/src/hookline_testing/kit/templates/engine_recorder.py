"""Engine recorder `sample`: counts what an engine is told and what it answers.

An engine asks the entry point `file` with `--record`. To take its place, rename this
entry point and remove hookline-recording.
"""

import logging

from hookline import hookimpl
from hookline.engine.commands import Command, EngineMessage
from hookline.engine_setup.engine_recorder import EngineRecorderContext

LOGGER = logging.getLogger(__name__)


class SampleRecorder:
    """Counts, on the engine's thread: it must be fast."""

    def __init__(self) -> None:
        self._num_commands = self._num_outputs = 0

    def command(self, at: int, command: Command) -> None:
        """Called with each command, at a time in ns of the engine's clock."""
        del at, command
        self._num_commands += 1

    def output(self, at: int, message: EngineMessage) -> None:
        """Called with each output."""
        del at, message
        self._num_outputs += 1

    def close(self) -> None:
        """Called once."""
        counts = self._num_commands, self._num_outputs
        LOGGER.info("%d commands, %d outputs", *counts)


@hookimpl
def create_engine_recorder(context: EngineRecorderContext) -> SampleRecorder:
    """Called in the engine's process."""
    del context
    return SampleRecorder()
