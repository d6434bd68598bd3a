"""How well speculation does, over the last seconds, and whether it pays."""

from dataclasses import dataclass

from hookline.events import StepRecord
from hookline.metrics.rate_window import RateWindow

SECONDS = 60.0
_WEIGHT = 0.2
"""Of the newest step in the running mean of what a step without drafts takes."""


@dataclass(frozen=True, slots=True)
class SpeculationReading:
    """Over the last 60 seconds.

    Attributes:
        acceptance: Accepted ÷ draft tokens; 0 where there were none.
        mean_length: 1 + accepted tokens ÷ drafts; 1 where there were none.
        speedup: Estimated time without speculation ÷ time with it; 1 where nothing can
            be said.
        most_drafts: Of a request, at present; 0 where speculation is off.
    """

    acceptance: float = 0.0
    mean_length: float = 1.0
    speedup: float = 1.0
    most_drafts: int = 0


class SpeculationYield:
    """Follows one engine's steps.

    What a step would have taken without drafts is the running mean of those that had
    none, of the same number of requests to the power of two. Steps that computed
    prompts tell nothing of either.
    """

    def __init__(self) -> None:
        self._drafts = RateWindow(SECONDS)
        self._draft_tokens = RateWindow(SECONDS)
        self._accepted = RateWindow(SECONDS)
        self._without = RateWindow(SECONDS)
        self._with = RateWindow(SECONDS)
        self._plain_ns: dict[int, float] = {}
        self._most_drafts = 0

    def step(self, record: StepRecord) -> None:
        at = record.ended_at
        self._most_drafts = record.most_drafts
        if record.drafts:
            self._drafts.add(at, record.drafts)
            self._draft_tokens.add(at, record.draft_tokens)
            self._accepted.add(at, record.accepted_tokens)
        if record.prefill_tokens or not record.decode_requests:
            return
        size = record.decode_requests.bit_length()
        if not record.drafts:
            plain = float(record.execute_ns - record.draft_ns)
            mean = self._plain_ns.get(size, plain)
            self._plain_ns[size] = mean + _WEIGHT * (plain - mean)
            if record.draft_ns:  # asked in vain: that is a cost, too
                self._without.add(at, plain)
                self._with.add(at, record.execute_ns)
        elif (known := self._plain_ns.get(size)) is not None:
            steps = 1 + record.accepted_tokens / record.decode_requests
            self._without.add(at, steps * known)
            self._with.add(at, record.execute_ns)

    def reading(self, at: int) -> SpeculationReading:
        """As of `at`, on the clock of the steps."""
        drafts, tokens = self._drafts.total(at), self._draft_tokens.total(at)
        accepted, spent = self._accepted.total(at), self._with.total(at)
        return SpeculationReading(
            acceptance=accepted / tokens if tokens else 0.0,
            mean_length=1 + accepted / drafts if drafts else 1.0,
            speedup=self._without.total(at) / spent if spent > 0 else 1.0,
            most_drafts=self._most_drafts,
        )
