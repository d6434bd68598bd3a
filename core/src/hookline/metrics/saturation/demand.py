"""What a request asks of the engine: prompt tokens to compute, passes, KV blocks."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from hookline.events import StepRecord
from hookline.stats import IterationStats, SchedulerStats

MEMORY_SECONDS = 60.0
"""Time constant, in busy seconds."""


class MeanRequest(NamedTuple):
    """The mean request of late.

    Attributes:
        prompt: Prompt tokens it computes once, cached ones not among them.
        again: Tokens it computes again because it was preempted.
        decodes: Steps in which it decodes.
        passes: Steps that it takes part in.
        blocks: KV blocks it holds at a time.
        fresh: Share of its prompt that no cache had.
    """

    prompt: float
    again: float
    decodes: float
    passes: float
    blocks: float
    fresh: float


@dataclass(slots=True)
class Demand:
    """Decaying sums of what requests got, and of the requests that got it.

    A request counts one half when its first token comes and one half when it ends: its
    decodes count before it ends, however long it is, and in the long run each request
    counts once.
    """

    _tokens: float = 0.0
    _again: float = 0.0
    _cached: float = 0.0
    _decodes: float = 0.0
    _prefills: float = 0.0
    _begun: float = 0.0
    _ended: float = 0.0
    _blocks: float = 0.0
    _holders: float = 0.0
    _last_again: int = 0

    def add(
        self, record: StepRecord, iteration: IterationStats, scheduler: SchedulerStats
    ) -> None:
        """Counts a step."""
        self._tokens += record.prefill_tokens
        self._decodes += record.decode_requests
        self._prefills += record.prefill_requests
        if (again := scheduler.recomputed_tokens) != self._last_again:
            self._again += max(0, again - self._last_again)
            self._last_again = again
        if iteration.first_tokens:
            self._begun += len(iteration.first_tokens)
            self._cached += (
                iteration.prompt_tokens_local + iteration.prompt_tokens_external
            )
        if iteration.finished:
            self.end(iteration)
        if scheduler.running:
            self._blocks += scheduler.kv_blocks_used
            self._holders += scheduler.running

    def end(self, iteration: IterationStats) -> None:
        """Counts requests that ended after their first token."""
        self._ended += sum(each.ttft_seconds is not None for each in iteration.finished)

    def age(self, seconds: float) -> None:
        """Lets so many busy seconds go by."""
        kept = math.exp(-seconds / MEMORY_SECONDS)
        self._tokens *= kept
        self._again *= kept
        self._cached *= kept
        self._decodes *= kept
        self._prefills *= kept
        self._begun *= kept
        self._ended *= kept
        self._blocks *= kept
        self._holders *= kept

    def mean(self) -> MeanRequest:
        """The mean request; at least half a one is taken to be behind the sums."""
        begun = max(self._begun, 0.5)
        counted = max((self._begun + self._ended) / 2, 0.5)
        again = min(self._again, self._tokens)
        new = self._tokens - again
        return MeanRequest(
            prompt=new / begun,
            again=again / begun,
            decodes=self._decodes / counted,
            passes=(self._decodes + self._prefills) / counted,
            blocks=self._blocks / self._holders if self._holders else 0.0,
            fresh=new / (new + self._cached) if new > 0 else 1.0,
        )
