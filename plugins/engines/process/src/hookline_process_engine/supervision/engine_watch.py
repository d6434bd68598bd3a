"""Whether one engine is stalled, by its signs of life."""

from hookline.frontend.engine_vitals import EngineVitals, Stall
from hookline_process_engine.supervision.config import SupervisionConfig

STOPPED_SECONDS = 5.0
"""Silence after which an engine counts as stalled if its process is stopped.

Such a process computes nothing, however long its step is, so no more patience helps.
"""
FIRST_STEP_FACTOR = 10
"""The first step may compile kernels and gets this many times `step_timeout`."""


class EngineWatch:
    """Measures how long one engine has been silent and without a step.

    It adds up the times between looks in which nothing came, rather than subtracting
    times of messages. So time in which the watching process itself was stopped or had
    no processor is not held against the engine, and a message costs an increment.
    """

    def __init__(
        self, vitals: EngineVitals, config: SupervisionConfig, heartbeat_seconds: float
    ) -> None:
        self.vitals = vitals
        self._limit = config.step_timeout
        self._heartbeat = heartbeat_seconds
        self._messages = self._steps = 0
        self._silent = self._stepless = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come for longer than a healthy engine is silent."""
        return self._silent > self._heartbeat

    def look(self, seconds: float, *, stopped: str = "") -> Stall | None:
        """Judges the engine.

        Args:
            seconds: Time since the last look, as far as this process ran.
            stopped: Which of the engine's processes is stopped, in words; empty if
                none is.
        """
        vitals = self.vitals
        has_work = _has_work(vitals)
        self._silent = self._since(self._messages, vitals.messages, seconds)
        if not has_work or vitals.steps != self._steps or vitals.num_slow_calls:
            self._stepless = 0.0
        else:
            self._stepless += seconds
        self._messages, self._steps = vitals.messages, vitals.steps
        return self._judge(has_work=has_work, stopped=stopped)

    def _since(self, before: int, now: int, seconds: float) -> float:
        return 0.0 if before != now else self._silent + seconds

    def _judge(self, *, has_work: bool, stopped: str) -> Stall | None:
        is_first = has_work and not self._steps
        limit = self._limit * (FIRST_STEP_FACTOR if is_first else 1)
        # Without work it sends a heartbeat now and then.
        quiet = limit + (0.0 if has_work else self._heartbeat)
        if stopped:
            is_final = self._silent > self._limit + self._heartbeat
            early = min(STOPPED_SECONDS, self._limit) + self._heartbeat
            if self._silent > early:
                return Stall(f"{stopped} is stopped", self._silent, is_final)
        if self._stepless > limit:
            reason = f"{stopped} is stopped" if stopped else self._stepless_reason()
            return Stall(reason, self._stepless, is_final=True)
        if self._silent > quiet and not self.vitals.num_slow_calls:
            return Stall("it sends nothing", self._silent, is_final=True)
        return None

    def _stepless_reason(self) -> str:
        if self._silent >= self._limit:
            return "it sends nothing and runs no step"
        return "it answers but runs no step"


def _has_work(vitals: EngineVitals) -> bool:
    """Whether requests need a step; those of a sleeping engine do not."""
    stats = vitals.stats
    if stats.sleep_level:
        return False
    return bool(vitals.unheard or stats.running or stats.waiting)
