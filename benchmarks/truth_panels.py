"""Panels of which a client knows the values, too."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from hookline_bench.answer import Answer


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client has seen of a run.

    Attributes:
        answers: All successful, in the order of sending.
        seats: How many requests the server runs at once.
    """

    answers: Sequence[Answer]
    seats: int

    @property
    def seconds(self) -> float:
        """From the first request to the end of the last."""
        return self.ended_at - self.answers[0].sent_at

    @property
    def ended_at(self) -> float:
        return max(each.ended_at for each in self.answers)

    def starts(self) -> Iterator[float]:
        """When each request gets a seat: first come, first served."""
        taken: list[float] = []
        for answer in self.answers:
            free_at = heapq.heappop(taken) if len(taken) == self.seats else 0.0
            start = max(answer.sent_at, free_at)
            heapq.heappush(taken, answer.ended_at)
            yield start

    def queue_seconds(self) -> list[float]:
        pairs = zip(self.answers, self.starts(), strict=True)
        return [start - answer.sent_at for answer, start in pairs]

    def running(self) -> float:
        """Mean number of requests in a seat."""
        pairs = zip(self.answers, self.starts(), strict=True)
        return sum(answer.ended_at - start for answer, start in pairs) / self.seconds

    def in_flight(self) -> float:
        """Mean number of requests without an end."""
        spans = (each.ended_at - each.sent_at for each in self.answers)
        return sum(spans) / self.seconds


@dataclass(frozen=True, slots=True)
class Panel:
    """A number, as the client has measured it and as Prometheus has it.

    Attributes:
        name: Its title.
        client: The client's value of a run.
        expression: PromQL, where `{run}` is a range as long as the run.
        native: The same for a Prometheus that takes native histograms, without classic
            ones beside them; None if that makes no difference.
        unit: `ms`, or empty for a number.
        is_count: Whether both sides count the same events.
        is_mean: Whether it is a mean of the same spans.
    """

    name: str
    client: Callable[[Seen], float]
    expression: str
    unit: str = ""
    native: str | None = None
    is_count: bool = field(default=False, kw_only=True)
    is_mean: bool = field(default=False, kw_only=True)


def _ttft(seen: Seen) -> list[float]:
    return [each.ttft for each in seen.answers]


def _e2e(seen: Seen) -> list[float]:
    return [each.latency for each in seen.answers]


def _intervals(seen: Seen) -> list[float]:
    return [gap for each in seen.answers for gap in each.intervals()]


def _tpot(seen: Seen) -> list[float]:
    return [each.tpot for each in seen.answers if each.tpot is not None]


def _count(name: str, client: Callable[[Answer], int], metric: str) -> Panel:
    def total(seen: Seen) -> float:
        return sum(client(each) for each in seen.answers)

    return Panel(name, total, f"sum({metric})", is_count=True)


def _mean(name: str, spans: Callable[[Seen], list[float]], metric: str) -> Panel:
    def mean(seen: Seen) -> float:
        return fmean(spans(seen))

    expression = f"sum({metric}_sum) / sum({metric}_count)"
    native = f"histogram_sum(sum({metric})) / histogram_count(sum({metric}))"
    return Panel(f"{name} mean", mean, expression, "ms", native, is_mean=True)


def _quantile(
    name: str, spans: Callable[[Seen], list[float]], metric: str, percent: int
) -> Panel:
    def quantile(seen: Seen) -> float:
        return float(np.percentile(spans(seen), percent))

    share = percent / 100
    expression = f"histogram_quantile({share:g}, sum by (le) ({metric}_bucket))"
    native = f"histogram_quantile({share:g}, sum({metric}))"
    return Panel(f"{name} p{percent}", quantile, expression, "ms", native)


TTFT = "hookline_time_to_first_token_seconds"
INTER_TOKEN = "hookline_inter_token_seconds"  # noqa: S105 - no password
E2E = "hookline_request_e2e_seconds"
RUNNING = "sum(avg_over_time(hookline_requests_running[{run}]))"
WAITING = "sum(avg_over_time(hookline_requests_waiting[{run}]))"
PANELS = (
    _count(
        "finished requests",
        lambda _: 1,
        'hookline_requests_finished_total{{reason=~"stop|length"}}',
    ),
    _count(
        "prompt tokens",
        lambda answer: answer.prompt_tokens,
        "hookline_prompt_tokens_total",
    ),
    _count(
        "cached prompt tokens",
        lambda answer: answer.cached_tokens,
        'hookline_prompt_tokens_total{{source!="computed"}}',
    ),
    _count(
        "generated tokens",
        lambda answer: answer.output_tokens,
        "hookline_generation_tokens_total",
    ),
    _mean("time to first token", _ttft, TTFT),
    _quantile("time to first token", _ttft, TTFT, 50),
    _quantile("time to first token", _ttft, TTFT, 90),
    _quantile("time to first token", _ttft, TTFT, 99),
    _mean("inter-token latency", _intervals, INTER_TOKEN),
    _quantile("inter-token latency", _intervals, INTER_TOKEN, 50),
    _quantile("inter-token latency", _intervals, INTER_TOKEN, 90),
    _quantile("inter-token latency", _intervals, INTER_TOKEN, 99),
    _mean(
        "time per output token",
        _tpot,
        "hookline_request_time_per_output_token_seconds",
    ),
    _mean("end-to-end latency", _e2e, E2E),
    _quantile("end-to-end latency", _e2e, E2E, 99),
    _mean("queue time", Seen.queue_seconds, "hookline_request_queue_seconds"),
    Panel("running requests", Seen.running, RUNNING),
    Panel("requests in flight", Seen.in_flight, f"{RUNNING} + {WAITING}"),
)
