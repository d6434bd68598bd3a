"""The loop and the core of an engine, which follow a recording's times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hookline.engine.engine_core import EngineCore, StepInFlight
from hookline.engine.engine_loop import EngineLoop
from hookline.events import StepOutput
from hookline.finish_cause import FinishCause
from hookline.request import GenerateRequest
from hookline.stats.step_work import EvictionWork
from hookline.step import StepPlan
from hookline_recording.checkpoint_schema import InFlight
from hookline_recording.schema import Published
from hookline_replay.clock import RecordedClock
from hookline_replay.script import Script

NEVER, NOW = 1e9, 0.0
_UNASKED = ("idle", "abort")
"""Causes of states that an engine without work publishes by itself."""


@dataclass(slots=True)
class Following:
    """What a core follows.

    Attributes:
        script: The recording.
        clock: The core's clock.
        planning: Called with the number of each step before it is planned.
        has_waited: Whether the engine has polled in vain since the last output, so that
            it is about time for the next one.
    """

    script: Script
    clock: RecordedClock
    planning: Callable[[int], None] | None = None
    has_waited: bool = False


class ReplayedCore(EngineCore):
    """Sets the clock to what the core read at each point of the recorded run.

    Attributes:
        following: What it follows; to be set before the first command.
    """

    following: Following

    def resume_steps(self, steps: Sequence[InFlight]) -> None:
        """Begins with steps in flight, which the executor knows."""
        for each in steps:
            plan = StepPlan(
                step=each.step,
                request_ids=each.request_ids,
                num_tokens=each.num_tokens,
            )
            started = self._executor.start(plan)
            # They have been made before, so that only the record can tell of them.
            evictions = EvictionWork(self.following.script.evicted.get(each.step, 0), 0)
            self._in_flight.append(
                StepInFlight(plan, started, each.at, each.at, evictions)
            )

    def add(self, request: GenerateRequest) -> None:
        clock, script = self.following.clock, self.following.script
        clock.at = script.queued_at.get(request.request_id, clock.at)
        super().add(request)

    def finish(self, request_ids: Sequence[int], cause: FinishCause) -> None:
        clock, ended = self.following.clock, self.following.script.ended
        for each in request_ids:
            if each in ended and each in self.scheduler.requests:
                clock.at = ended[each].at
                break
        super().finish(request_ids, cause)

    def report(self, cause: str) -> StepOutput:
        self._set_to_output()
        return super().report(cause)

    def expire(self) -> None:
        self._set_to_output()
        super().expire()

    def _schedule_and_start(self) -> StepPlan | None:
        """Also lets others in before a step is planned."""
        following = self.following
        upcoming = following.script.next
        if (at := following.script.decision_at()) is not None:
            following.clock.at = at
        elif following.has_waited and isinstance(upcoming, Published):
            following.clock.at = upcoming.at
        if following.planning is not None:
            step = following.script.next_step()
            if step is not None:
                following.planning(step)
        return super()._schedule_and_start()

    def _set_to_output(self) -> None:
        output = self.following.script.next_output
        if output is not None and output.clock_at:
            self.following.clock.at = output.clock_at


class ReplayedLoop(EngineLoop):
    """Publishes states when the recorded engine did."""

    core: ReplayedCore

    def resume(self) -> None:
        """Begins after a step."""
        self._changed, self._has_stepped = "idle", True

    def _seconds_to_heartbeat(self) -> float:
        record = self.core.following.script.next
        if not isinstance(record, Published) or not record.wall:
            return NEVER
        if record.cause not in _UNASKED:
            return NOW
        if self._changed:
            # A poll may have come before or after the command that changed it.
            self._changed = record.cause
        return NEVER
