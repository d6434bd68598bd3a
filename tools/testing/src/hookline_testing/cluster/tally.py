"""What a simulation measures: latencies, shares and loads."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from hookline.outputs import RequestMetrics, RequestOutput
from hookline_testing.cluster.traffic import Arrival

PERCENTAGES = (50, 90, 99)


def jain(values: Collection[float]) -> float:
    """Returns Jain's index: 1 if all are equal, 1/n if one of n has everything."""
    total, squares = sum(values), sum(value * value for value in values)
    return total * total / (len(values) * squares) if squares else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A run in numbers.

    Attributes:
        requests: Number of requests that ended.
        seconds: Virtual time from the first arrival to the last end.
        requests_per_second: Their ratio.
        ttft_seconds: Time to the first token by percentage.
        e2e_seconds: Time to the end, likewise.
        hit_ratio: Part of the prompt tokens that a prefix cache had.
        engine_fairness: Jain's index of the engines' open requests, on average over
            time.
        client_fairness: Jain's index of the clients' mean times to the first token.
        imbalance: Open requests of the engine that has most ÷ the mean engine's, on
            average over time.
        reasons: Requests by why their engine was chosen.
        messages: Outputs that front ends got.
        empty_messages: Those of them without tokens of their requests.
        residue: Number of checks at which received − finished − in flight was not 0,
            of front ends, or of the cluster.
    """

    requests: int
    seconds: float
    requests_per_second: float
    ttft_seconds: dict[str, float]
    e2e_seconds: dict[str, float]
    hit_ratio: float
    engine_fairness: float
    client_fairness: float
    imbalance: float
    reasons: dict[str, int]
    messages: int
    empty_messages: int
    residue: int


@dataclass(slots=True)
class Tally:
    """Collects what happens in a run.

    Attributes:
        engines: Number of engines.
        open_by_engine: Requests sent to each engine that have not ended for clients.
        ttft: Seconds to the first token of each request, in the order of their ends.
        messages: Outputs that front ends got.
        empty_messages: Those of them without tokens of their requests.
        residue: Number of checks of the books that failed.
    """

    engines: int
    open_by_engine: list[int] = field(init=False)
    ttft: list[float] = field(default_factory=list)
    messages: int = 0
    empty_messages: int = 0
    residue: int = 0
    _e2e: list[float] = field(default_factory=list)
    _by_client: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _prompt_tokens: int = 0
    _cached_tokens: int = 0
    _fairness: list[float] = field(default_factory=list)
    _imbalance: list[float] = field(default_factory=list)
    _last_end: float = 0.0

    def __post_init__(self) -> None:
        self.open_by_engine = [0] * self.engines

    @property
    def ended(self) -> int:
        return len(self._e2e)

    def end(self, arrival: Arrival, engine_index: int, output: RequestOutput) -> None:
        """Counts an answer that is complete."""
        metrics = output.metrics
        assert isinstance(metrics, RequestMetrics)
        assert metrics.ttft_seconds is not None
        self.open_by_engine[engine_index] -= 1
        self.ttft.append(metrics.ttft_seconds)
        self._e2e.append(metrics.e2e_seconds)
        self._by_client[arrival.client].append(metrics.ttft_seconds)
        self._prompt_tokens += len(arrival.prompt)
        self._cached_tokens += output.cached_tokens
        self._last_end = max(self._last_end, arrival.at + metrics.e2e_seconds)

    def sample(self) -> None:
        """Measures how evenly the engines are loaded now."""
        loads = self.open_by_engine
        if total := sum(loads):
            self._fairness.append(jain(loads))
            self._imbalance.append(max(loads) * len(loads) / total)

    def result(self, reasons: Counter[str]) -> Result:
        """Returns the run in numbers."""
        means = [float(np.mean(each)) for each in self._by_client.values()]
        return Result(
            requests=self.ended,
            seconds=self._last_end,
            requests_per_second=self.ended / self._last_end,
            ttft_seconds=_percentiles(self.ttft),
            e2e_seconds=_percentiles(self._e2e),
            hit_ratio=self._cached_tokens / self._prompt_tokens,
            engine_fairness=float(np.mean(self._fairness)),
            client_fairness=jain(means),
            imbalance=float(np.mean(self._imbalance)),
            reasons=dict(reasons),
            messages=self.messages,
            empty_messages=self.empty_messages,
            residue=self.residue,
        )


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    return {str(each): float(np.percentile(values, each)) for each in PERCENTAGES}
