"""Counts what an engine tells that is not Hookline's own, in the engine's process.

Front ends that share it see their own requests only, so what it says of all of them is
held here against what it has told of each. Nobody has to count who writes an engine.
"""

from collections import Counter

from msgspec.structs import replace

from hookline.engine.commands import EngineMessage
from hookline.engine.engine_loop import Receive
from hookline.engine_setup.building import DrivenEngine
from hookline.events import ClockPair, StepEvents, StepOutput
from hookline.request import FinishReason
from hookline.stats.scheduler_stats import SchedulerStats


class CountedEngine:
    """Another engine whose states have the totals of its events, and their residue."""

    def __init__(self, inner: DrivenEngine) -> None:
        self._inner, self.facts, self.bell = inner, inner.facts, inner.bell
        self._open: dict[int, int] = {}
        self._received = self._sampled = self._ended_tokens = self._preemptions = 0
        self._finished: Counter[str] = Counter()

    @property
    def has_work(self) -> bool:
        return self._inner.has_work

    def clock_pair(self) -> ClockPair:
        return self._inner.clock_pair()

    def run_once(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        """Has the engine run, and counts what it tells."""
        return [
            self._counted(message) if isinstance(message, StepOutput) else message
            for message in self._inner.run_once(receive, timeout_seconds)
        ]

    def close(self) -> None:
        self._inner.close()

    def _counted(self, output: StepOutput) -> StepOutput:
        self._count(output.events)
        return replace(output, stats=self._audited(output.stats))

    def _count(self, events: StepEvents) -> None:
        for queued in events.queued:
            self._received += queued.request_id not in self._open
            self._open.setdefault(queued.request_id, 0)
        self._preemptions += len(events.preempted)
        for tokens in events.new_tokens:
            if tokens.request_id in self._open:
                self._open[tokens.request_id] += len(tokens.token_ids)
                self._sampled += len(tokens.token_ids)
        for ended in events.finished:
            if (tokens_of_it := self._open.pop(ended.request_id, None)) is None:
                continue
            if ended.reason is FinishReason.REJECTED:  # as if it had never come
                self._received -= 1
                continue
            self._finished[ended.reason] += 1
            self._ended_tokens += tokens_of_it

    def _audited(self, stats: SchedulerStats) -> SchedulerStats:
        """Returns a state with counted totals where it has none, else with residue."""
        told, finished = stats.totals, dict(self._finished)
        counted = replace(
            told,
            received=self._received,
            finished=finished,
            preemptions=max(told.preemptions, self._preemptions),
            sampled_tokens=self._sampled,
            finished_tokens=self._ended_tokens,
        )
        present = stats.running + stats.waiting + sum(stats.held.values())
        residue = abs(present - len(self._open))
        if told.received or told.finished:  # it counts by itself
            residue += abs(told.received - self._received)
            residue += abs(sum(told.finished.values()) - sum(finished.values()))
        if not residue:
            return replace(stats, totals=counted)
        left = replace(told.residue, requests=told.residue.requests + residue)
        return replace(stats, totals=replace(counted, residue=left))
