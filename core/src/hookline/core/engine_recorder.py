"""Gets every command and every output in the engine process."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hookline.core.commands import Command, EngineMessage
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


class EngineRecorder(Protocol):
    """Called by the engine's own thread, so it misses nothing and must be fast.

    Times are in ns on the engine's monotonic clock. One that raises is logged and not
    called again; the engine continues.
    """

    def command(self, at: int, command: Command) -> None:
        """Called with each command, before the engine executes it."""
        ...

    def output(self, at: int, message: EngineMessage) -> None:
        """Called with each output, state or reply, before it is sent."""
        ...

    def close(self) -> None:
        """Called once, when the engine is closed; not if its process is killed."""
        ...


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
