"""Gets every command and every output in the engine process."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookline.engine.commands import Command, EngineMessage
from hookline.engine.engine_loop import EngineRecorder
from hookline.events import ClockPair
from hookline_registry import Failure, isolate

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig
    from hookline.payloads import EngineFacts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecorderContext:
    """What an engine's recorder is made from.

    Attributes:
        config: The engine's configuration.
        facts: Its facts at its start.
        clock: Its clocks now.
    """

    config: "EngineConfig"
    facts: "EngineFacts"
    clock: ClockPair


class GuardedRecorder:
    """A recorder whose errors never reach the engine."""

    def __init__(self, recorder: EngineRecorder) -> None:
        self._recorder: EngineRecorder | None = recorder

    def command(self, at: int, command: Command) -> None:
        if self._recorder is not None:
            self._check(isolate(self._recorder.command, at, command))

    def output(self, at: int, message: EngineMessage) -> None:
        if self._recorder is not None:
            self._check(isolate(self._recorder.output, at, message))

    def close(self) -> None:
        if self._recorder is not None:
            self._check(isolate(self._recorder.close))
        self._recorder = None

    def _check(self, outcome: Failure | None) -> None:
        if outcome is None:
            return
        _log.error(
            "the recorder failed and is not called again: %s",
            outcome.summary,
            exc_info=outcome.error,
        )
        self._recorder = None
