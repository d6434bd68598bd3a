"""Estimates the mean request's demand: prompt tokens, steps, KV blocks."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from hookline.events import StepRecord
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats

MEMORY_SECONDS = 60.0
"""Time constant, in busy seconds."""


class MeanRequest(NamedTuple):
    """The recent mean request.

    Attributes:
        prompt: Prompt tokens to compute, without cached and recomputed tokens.
        recomputed: Tokens recomputed after preemptions.
        decodes: Decode steps.
        passes: Steps that it takes part in, prefill and decode.
        blocks: KV blocks held at a time.
        fresh: Fraction of the prompt that no cache held.
        yields: Tokens per decode step, above 1 with drafts.
        counted: Number of requests that the means are of, recent ones for more.
    """

    prompt: float
    recomputed: float
    decodes: float
    passes: float
    blocks: float
    fresh: float
    yields: float
    counted: float


class OthersWork(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an output says of other front ends' requests, in numbers.

    Attributes:
        begun: Requests that got their first tokens.
        cached_tokens: Prompt tokens of these that no step had to compute.
        ended: Requests that ended after their first tokens.
    """

    begun: int
    cached_tokens: int
    ended: int


@dataclass(slots=True)
class Demand:
    """Decaying sums of the work done and of the requests that it was done for.

    A request counts one half at its first token and one half at its end: its decode
    steps count before it ends, and in the long run each request counts once.
    """

    _tokens: float = 0.0
    _recomputed: float = 0.0
    _cached: float = 0.0
    _decodes: float = 0.0
    _accepted: float = 0.0
    _prefills: float = 0.0
    _begun: float = 0.0
    _ended: float = 0.0
    _blocks: float = 0.0
    _holders: float = 0.0
    _last_recomputed: int = 0

    def add(
        self, record: StepRecord, iteration: IterationStats, scheduler: SchedulerStats
    ) -> None:
        """Adds a step."""
        self._tokens += record.work.prefill_tokens
        self._decodes += record.work.decode_requests
        self._accepted += record.verified.accepted_tokens
        self._prefills += record.work.prefill_requests
        if (recomputed := scheduler.totals.recomputed_tokens) != self._last_recomputed:
            self._recomputed += max(0, recomputed - self._last_recomputed)
            self._last_recomputed = recomputed
        self.add_requests(iteration)
        if scheduler.running:
            self._blocks += scheduler.kv_blocks_used
            self._holders += scheduler.running

    def add_requests(self, iteration: IterationStats) -> None:
        """Adds requests that got their first tokens, or ended after them."""
        if iteration.first_tokens:
            self._begun += len(iteration.first_tokens)
            found = iteration.prompt_tokens - iteration.prompt_tokens_computed
            self._cached += found
        ended = iteration.finished
        self._ended += sum(each.ttft_seconds is not None for each in ended)

    def add_others(self, work: OthersWork) -> None:
        """Adds requests that other front ends account for."""
        self._begun += work.begun
        self._cached += work.cached_tokens
        self._ended += work.ended

    def age(self, seconds: float) -> None:
        """Decays the sums by `seconds` of busy time."""
        kept = math.exp(-seconds / MEMORY_SECONDS)
        self._tokens *= kept
        self._recomputed *= kept
        self._cached *= kept
        self._decodes *= kept
        self._accepted *= kept
        self._prefills *= kept
        self._begun *= kept
        self._ended *= kept
        self._blocks *= kept
        self._holders *= kept

    def mean(self) -> MeanRequest:
        """Returns the mean request; the sums count as at least half a request."""
        begun = max(self._begun, 0.5)
        counted = max((self._begun + self._ended) / 2, 0.5)
        recomputed = min(self._recomputed, self._tokens)
        new = self._tokens - recomputed
        return MeanRequest(
            prompt=new / begun,
            recomputed=recomputed / begun,
            decodes=self._decodes / counted,
            passes=(self._decodes + self._prefills) / counted,
            blocks=self._blocks / self._holders if self._holders else 0.0,
            fresh=new / (new + self._cached) if new > 0 else 1.0,
            yields=1 + self._accepted / self._decodes if self._decodes > 0 else 1.0,
            counted=(self._begun + self._ended) / 2,
        )
