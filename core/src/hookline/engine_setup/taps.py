"""Taps see all that an engine gets, decides and says, in its own process."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookline.engine.commands import Command, EngineMessage
from hookline.engine.engine_core import Tap
from hookline.events import ClockPair
from hookline.step import StepPlan, StepResult
from hookline_registry import Failure, isolate

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig
    from hookline.payloads import EngineFacts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TapContext:
    """What an engine's tap is made from.

    Attributes:
        config: The engine's configuration.
        facts: Its facts at its start.
        clock: Its clocks now.
    """

    config: "EngineConfig"
    facts: "EngineFacts"
    clock: ClockPair


class Taps:
    """Taps as one: the errors of a tap reach neither the engine nor the others.

    One that raises is logged and not called again.
    """

    def __init__(self, taps: Sequence[Tap]) -> None:
        self._taps = list(taps)

    def command(self, at: int, command: Command) -> None:
        for tap in self._taps:
            if isinstance(outcome := isolate(tap.command, at, command), Failure):
                self._leave_out(tap, outcome)

    def planned(self, at: int, plan: StepPlan) -> None:
        for tap in self._taps:
            if isinstance(outcome := isolate(tap.planned, at, plan), Failure):
                self._leave_out(tap, outcome)

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        for tap in self._taps:
            if isinstance(outcome := isolate(tap.computed, at, plan, result), Failure):
                self._leave_out(tap, outcome)

    def output(self, at: int, message: EngineMessage) -> None:
        for tap in self._taps:
            if isinstance(outcome := isolate(tap.output, at, message), Failure):
                self._leave_out(tap, outcome)

    def close(self, error: BaseException | None) -> None:
        taps, self._taps = self._taps, []
        for tap in taps:
            if isinstance(outcome := isolate(tap.close, error), Failure):
                self._leave_out(tap, outcome)

    def _leave_out(self, tap: Tap, outcome: Failure) -> None:
        """Logs the error of a tap, and calls it no more."""
        self._taps = [each for each in self._taps if each is not tap]
        _log.error(
            "the tap %s failed and is not called again: %s",
            type(tap).__name__,
            outcome.summary,
            exc_info=outcome.error,
        )
