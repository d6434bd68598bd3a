"""Watches what bounds a running engine, for a line of the log when that changes."""

from hookline.clock import NANOSECONDS
from hookline.payloads import StepFinished
from hookline_insight.bounds import WORDS, device_evidence
from hookline_insight.wording import percent
from hookline_metrics.saturation.bound import BUDGET, KV_SPACE, SLOTS, BoundTimes
from hookline_metrics.saturation.costs import StepCosts

LEAST_SHARE = 0.6
"""So much of the last seconds makes a limit the one that bounds an engine."""
EVERY_SECONDS = 60.0
"""Time between two lines."""
_FIT_EVERY = 64
"""Steps between two fits and looks; between them, steps are only added up."""


class BoundWatch:
    """Watches one engine, on its clock."""

    def __init__(self) -> None:
        self._costs = StepCosts()
        self._times = BoundTimes(self._costs)
        self._steps = self._ended_at = 0
        self._seconds = 0.0
        self._is_idle = False
        self._told, self._told_at = "", 0

    def step(self, step: StepFinished) -> str:
        """Takes a step; returns what bounds the engine now, if that has changed."""
        record, scheduler = step.record, step.scheduler
        work, begin, end = record.work, record.started_at, record.ended_at
        before, self._ended_at = self._ended_at, end
        if self._is_idle and begin > before:
            self._times.wake(begin, (begin - before) / NANOSECONDS)
        else:
            begin = before or begin
        seconds = (end - begin) / NANOSECONDS if end > begin else 0.0
        self._seconds += seconds
        self._costs.add(work.decode_requests, work.prefill_tokens, seconds)
        self._times.add_step(
            seconds, work.obstacle, work.decode_requests, work.prefill_tokens
        )
        if step.iteration.first_tokens:
            self._times.first_tokens(step.iteration.first_tokens, end)
        self._is_idle = not (scheduler.running or scheduler.waiting or scheduler.held)
        self._steps += 1
        return "" if self._steps % _FIT_EVERY else self._look(step)

    def _look(self, step: StepFinished) -> str:
        self._costs.fit()
        self._costs.age(self._seconds)
        self._seconds, at = 0.0, step.record.ended_at
        shares = self._times.shares()
        name = max(shares, key=shares.__getitem__)
        if name == self._told or shares[name] < LEAST_SHARE:
            return ""
        if self._told and at - self._told_at < EVERY_SECONDS * NANOSECONDS:
            return ""
        self._told, self._told_at = name, at
        share, evidence = percent(shares[name]), self._evidence(name, step)
        return f"{WORDS[name]} for {share} of the last seconds: {evidence}"

    def _evidence(self, name: str, step: StepFinished) -> str:
        """Says what shows it, at this moment."""
        scheduler, work = step.scheduler, step.record.work
        waiting = scheduler.waiting
        wait = "1 request waits" if waiting == 1 else f"{waiting} requests wait"
        used, blocks = scheduler.kv_blocks_used, scheduler.kv_blocks
        held = {
            KV_SPACE: f"{wait}, and {used} of {blocks} KV blocks are taken",
            SLOTS: f"{wait}, and {scheduler.running} run, which is all that may",
            BUDGET: f"{wait}, and the last step had {work.tokens} tokens",
        }
        return held.get(name) or device_evidence(name, self._costs.cost)
