"""Taps, which see what an engine does in its own process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hookline.engine.commands import Command, EngineMessage
from hookline.events import ClockPair
from hookline.stats.step_work import Obstacle
from hookline.step import StepPlan, StepResult

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig
    from hookline.engine.scheduler.scheduler import Scheduler
    from hookline.payloads import EngineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class TapContext:
    """What an engine's tap is made from.

    Attributes:
        config: The engine's configuration.
        facts: Its facts at its start.
        clock: Its clocks now.
        scheduler: Its scheduler, for reading on its own thread; None if it is not ours.
    """

    config: "EngineConfig"
    facts: "EngineFacts"
    clock: ClockPair
    scheduler: "Scheduler | None" = None


class Tap(Protocol):
    """Receives commands, plans, results and outputs, on the engine's own thread.

    Times are in ns on the engine's monotonic clock. With those of its step's record,
    they are all that the engine has read of it, so that a run can be repeated.
    """

    def command(self, at: int, command: Command) -> None:
        """Called with each command, before the engine executes it."""

    def planned(self, at: int, plan: StepPlan) -> None:
        """Called with each plan of a step, before the executor gets it."""

    def blocked(self, at: int, obstacle: Obstacle) -> None:
        """Called when requests wait and no step can be planned: why."""

    def gated(self, at: int, request_id: int, gate: str) -> None:
        """Called when a request has to wait at a gate; empty once it need not."""

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        """Called with each result of a step or a poll, before the engine takes it in.

        A step's output comes next; a poll, whose plan has no requests, may have none.
        """

    def output(self, at: int, message: EngineMessage) -> None:
        """Called with each output, state or reply, before it is sent."""

    def close(self, error: BaseException | None) -> None:
        """Called when the engine ends, of an error or of None; not if it is killed."""
