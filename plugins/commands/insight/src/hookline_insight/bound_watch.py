"""Watches what bounds a running engine, for a line of the log when that changes."""

from hookline.clock import NANOSECONDS
from hookline.events import StepRecord
from hookline_insight.bounds import WORDS
from hookline_metrics.saturation.bound import BoundTimes
from hookline_metrics.saturation.costs import StepCosts

LEAST_SHARE = 0.6
"""So much of the last seconds makes a limit the one that bounds an engine."""
EVERY_SECONDS = 60.0
"""Time between two lines."""
_FIT_EVERY = 64


class BoundWatch:
    """Watches one engine, on its clock."""

    def __init__(self) -> None:
        self._costs, self._times = StepCosts(), BoundTimes()
        self._steps = self._ended_at = 0
        self._told, self._told_at = "", 0

    def step(self, record: StepRecord) -> str:
        """Takes a step; returns what bounds the engine now, if that has changed."""
        work, begin = record.work, max(record.started_at, self._ended_at)
        if self._ended_at:
            self._times.add_idle((begin - self._ended_at) / NANOSECONDS)
        seconds = max(0, record.ended_at - begin) / NANOSECONDS
        self._ended_at = record.ended_at
        size = work.decode_requests, work.prefill_tokens
        self._costs.add(*size, seconds)
        self._costs.age(seconds)
        self._steps += 1
        if is_due := self._steps % _FIT_EVERY == 0:
            self._costs.fit()
        self._times.add_step(seconds, work.obstacle, *size, self._costs.cost)
        return self._changed(record.ended_at) if is_due else ""

    def _changed(self, at: int) -> str:
        name, share = self._times.name, self._times.shares()[self._times.name]
        if name == self._told or share < LEAST_SHARE:
            return ""
        if self._told and at - self._told_at < EVERY_SECONDS * NANOSECONDS:
            return ""
        self._told, self._told_at = name, at
        return f"{WORDS[name]}: {share:.0%} of the last seconds"
