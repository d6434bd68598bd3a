"""The tap: gets every command and every output in the engine process."""

import logging
from typing import Protocol

from hookline.core.commands import Command, EngineMessage
from hookline_registry import Failure, isolate

_log = logging.getLogger(__name__)


class Tap(Protocol):
    """Called by the engine's own thread, so it misses nothing and must be fast.

    Times are in ns on the engine's monotonic clock. A tap that raises is logged and not
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


class GuardedTap:
    """A tap whose errors never reach the engine."""

    def __init__(self, tap: Tap) -> None:
        self._tap: Tap | None = tap

    def command(self, at: int, command: Command) -> None:
        if self._tap is not None:
            self._check(isolate(self._tap.command, at, command))

    def output(self, at: int, message: EngineMessage) -> None:
        if self._tap is not None:
            self._check(isolate(self._tap.output, at, message))

    def close(self) -> None:
        if self._tap is not None:
            self._check(isolate(self._tap.close))
        self._tap = None

    def _check(self, outcome: Failure | None) -> None:
        if outcome is None:
            return
        _log.error(
            "the tap failed and is not called again: %s",
            outcome.summary,
            exc_info=outcome.error,
        )
        self._tap = None
