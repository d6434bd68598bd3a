"""Efficiency of speculative decoding over the last 60 seconds."""

from collections import defaultdict, deque
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline.events import StepRecord
from hookline_metrics.drafts import draft_use
from hookline_metrics.rate_window import RateWindow

SECONDS = 60.0
_LEAST_STEPS = 5
"""Steps without drafts that an estimate of their duration needs."""
_MOST_STEPS = 15
"""Steps without drafts that it is made from: the latest."""


@dataclass(frozen=True, slots=True)
class SpeculationReading:
    """Efficiency over the last 60 seconds.

    Attributes:
        acceptance: Accepted ÷ draft tokens; 0 without drafts.
        efficiency: Emitted tokens ÷ the most that drafts of the maximum length could
            have emitted, 0 to 1; 0 without drafts. A draft emits the tokens accepted
            from it and one of the target model.
        mean_length: 1 + accepted tokens ÷ drafts; 1 without drafts.
        speedup: Estimated time without speculation ÷ time with it, at most
            `mean_length`; None without an estimate.
        most_drafts: Maximum draft tokens per request at present; 0 if speculation is
            off.
    """

    acceptance: float = 0.0
    efficiency: float = 0.0
    mean_length: float = 1.0
    speedup: float | None = None
    most_drafts: int = 0


class SpeculationYield:
    """Tracks one engine's steps.

    The duration without drafts is the median of recent steps without drafts, by number
    of requests rounded to a power of two: the first steps of a process are slow, and
    those of a minute ago had other contexts. Steps with prefill are ignored.
    """

    def __init__(self) -> None:
        self._drafts = RateWindow(SECONDS)
        self._draft_tokens = RateWindow(SECONDS)
        self._accepted = RateWindow(SECONDS)
        self._possible = RateWindow(SECONDS)
        self._without = RateWindow(SECONDS)
        self._with = RateWindow(SECONDS)
        self._plain: defaultdict[int, deque[tuple[int, int]]] = defaultdict(_steps)
        self._most_drafts = 0

    def step(self, record: StepRecord) -> None:
        at, use, verified = record.ended_at, draft_use(record), record.verified
        # The step before limited the drafts that this one has verified.
        limit, self._most_drafts = self._most_drafts, use.most_drafts
        if verified.drafts:
            longest = max(limit or use.most_drafts, len(verified.accepted_by_position))
            self._possible.add(at, verified.drafts * (longest + 1))
            self._drafts.add(at, verified.drafts)
            self._draft_tokens.add(at, verified.draft_tokens)
            self._accepted.add(at, verified.accepted_tokens)
        if record.work.prefill_tokens or not record.work.decode_requests:
            return
        size = record.work.decode_requests.bit_length()
        if not verified.drafts:
            plain = record.execute_ns - use.draft_ns
            self._plain[size].append((at, plain))
            # Asking the proposer costs time even if it returns no drafts.
            if use.draft_ns:
                self._without.add(at, plain)
                self._with.add(at, record.execute_ns)
        elif (known := self._plain_ns(size, at)) is not None:
            steps = 1 + verified.accepted_tokens / record.work.decode_requests
            self._without.add(at, steps * known)
            self._with.add(at, record.execute_ns)

    def _plain_ns(self, size: int, at: int) -> int | None:
        """Returns the duration of a step without drafts; None if it is not known."""
        oldest = at - SECONDS * NANOSECONDS
        recent = sorted(plain for ended, plain in self._plain[size] if ended >= oldest)
        return recent[len(recent) // 2] if len(recent) >= _LEAST_STEPS else None

    def reading(self, at: int) -> SpeculationReading:
        """Returns the efficiency as of `at`, on the clock of the steps."""
        drafts, tokens = self._drafts.total(at), self._draft_tokens.total(at)
        accepted, spent = self._accepted.total(at), self._with.total(at)
        possible = self._possible.total(at)
        mean_length = 1 + accepted / drafts if drafts else 1.0
        # No step is shorter for its drafts: more than their tokens is noise.
        speedup = min(self._without.total(at) / spent, mean_length) if spent else None
        return SpeculationReading(
            acceptance=accepted / tokens if tokens else 0.0,
            efficiency=(accepted + drafts) / possible if possible else 0.0,
            mean_length=mean_length,
            speedup=speedup,
            most_drafts=self._most_drafts,
        )


def _steps() -> deque[tuple[int, int]]:
    """Returns room for the end and the duration of the latest steps of one size."""
    return deque(maxlen=_MOST_STEPS)
