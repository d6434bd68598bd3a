"""Drives an engine core: takes commands in, steps while there is work, else waits."""

from collections.abc import Callable

from hookline.clock import NANOSECONDS
from hookline.core.commands import Add, Command, Finish
from hookline.core.engine_core import WAIT, EngineCore
from hookline.events import StepOutput

Receive = Callable[[float], Command | None]
"""Waits up to so many seconds for a command; 0 only looks."""


SHORTEST_PAUSE, LONGEST_PAUSE = 0.0005, 0.05
"""Between two questions whether KV has come, in seconds, while nothing is computed."""


class EngineLoop:
    """The same loop wherever the core runs; each turn gives at most one output."""

    def __init__(self, core: EngineCore, heartbeat_seconds: float) -> None:
        self._core = core
        self._heartbeat = round(heartbeat_seconds * NANOSECONDS)
        self._last_state = core.clock.now()
        self._changed = ""
        self._was_reset = False
        self._has_stepped = False
        self._pause = SHORTEST_PAUSE

    def turn(self, receive: Receive, timeout_seconds: float) -> StepOutput | None:
        """Takes in what has come, then steps, or tells a change, or waits.

        Between two states told while requests run lies a step, however many resets
        come.
        """
        while (command := receive(0)) is not None:
            self._handle(command)
        is_busy = self._core.has_work
        if self._was_reset and (self._has_stepped or not is_busy):
            return self._state("reset")
        if self._seconds_to_heartbeat() <= 0:
            return self._state("heartbeat")
        if is_busy:
            self._changed = "idle"
            self._has_stepped = True
            output = self._core.step()
            if output.cause != WAIT:
                self._pause = SHORTEST_PAUSE
                return output
            self._wait(receive, min(timeout_seconds, self._next_pause()))
            return None
        if self._changed:
            return self._state(self._changed)
        self._wait(receive, timeout_seconds)
        return None

    def _wait(self, receive: Receive, timeout_seconds: float) -> None:
        wait = min(timeout_seconds, self._seconds_to_heartbeat())
        if (command := receive(max(wait, 0))) is not None:
            self._handle(command)

    def _next_pause(self) -> float:
        """An eighth of all pauses before it: by so much what ends is seen late."""
        pause, self._pause = self._pause, min(1.125 * self._pause, LONGEST_PAUSE)
        return pause

    def _seconds_to_heartbeat(self) -> float:
        due = self._last_state + self._heartbeat
        return (due - self._core.clock.now()) / NANOSECONDS

    def _state(self, cause: str) -> StepOutput:
        self._last_state = self._core.clock.now()
        self._changed = ""
        self._was_reset = self._has_stepped = False
        return self._core.state(cause)

    def _handle(self, command: Command) -> None:
        if isinstance(command, Add):
            self._core.add(command.request)
        elif isinstance(command, Finish):
            self._core.finish(command.request_ids, command.cause)
            self._changed = "abort"
        else:
            self._core.reset_prefix_cache()
            self._was_reset = True
