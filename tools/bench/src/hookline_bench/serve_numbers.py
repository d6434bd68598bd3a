"""Computes the numbers of a report from the responses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hookline_bench.answer import Answer
from hookline_bench.load import Run
from hookline_bench.percentiles import Summary, summarize

MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class LatencyMetric:
    """A latency that can be reported.

    Attributes:
        short: Name in the lines of the report.
        title: Heading of these lines.
        values: Seconds: none, one or many of an answer.
    """

    short: str
    title: str
    values: Callable[[Answer], Sequence[float]]


def _tpot(answer: Answer) -> list[float]:
    return [] if answer.tpot is None else [answer.tpot]


LATENCY_METRICS: Mapping[str, LatencyMetric] = {
    "ttft": LatencyMetric("TTFT", "Time to First Token", lambda each: [each.ttft]),
    "tpot": LatencyMetric("TPOT", "Time per Output Token (excl. 1st token)", _tpot),
    "itl": LatencyMetric(
        "ITL", "Inter-token Latency", lambda each: list(each.intervals())
    ),
    "e2el": LatencyMetric("E2EL", "End-to-end Latency", lambda each: [each.latency]),
    "client_queue_time": LatencyMetric(
        "Client Queue Time",
        "Client-side Queueing",
        lambda each: [each.sent_at - each.due_at],
    ),
    "e2el_including_client_queue": LatencyMetric(
        "E2EL incl. Client Queue",
        "Queue-inclusive End-to-end Latency",
        lambda each: [each.times[-1] - each.due_at],
    ),
}
"""Latencies by their name in `--percentile-metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeNumbers:
    """The results of a run.

    Attributes:
        goodput: Good requests per second; None without objectives.
        peak_output: Most output tokens in a second, of those counted from the first
            request on.
        peak_concurrent: Maximum number of concurrent requests.
        latencies: In milliseconds, by metric.
    """

    seconds: float
    completed: int
    failed: int
    input_tokens: int
    output_tokens: int
    goodput: float | None
    peak_output: float
    peak_concurrent: int
    latencies: Mapping[str, Summary]

    @property
    def request_throughput(self) -> float:
        return self.completed / self.seconds

    @property
    def output_throughput(self) -> float:
        return self.output_tokens / self.seconds

    @property
    def total_throughput(self) -> float:
        return (self.input_tokens + self.output_tokens) / self.seconds


def serve_numbers(
    run: Run,
    *,
    metrics: Sequence[str],
    percentages: Sequence[float],
    objectives: Mapping[str, float],
) -> ServeNumbers:
    """Computes the results of a run; failed requests only count as failed."""
    good = [answer for answer in run.answers if answer.error is None]
    return ServeNumbers(
        seconds=run.seconds,
        completed=len(good),
        failed=len(run.answers) - len(good),
        input_tokens=sum(answer.prompt_tokens for answer in good),
        output_tokens=sum(answer.output_tokens for answer in good),
        goodput=_goodput(good, objectives, run.seconds) if objectives else None,
        peak_output=peak_output(good),
        peak_concurrent=peak_concurrent(run.answers),
        latencies={
            name: summarize(
                [
                    value * MILLISECONDS
                    for answer in good
                    for value in LATENCY_METRICS[name].values(answer)
                ],
                percentages,
            )
            for name in metrics
        },
    )


def is_good(answer: Answer, objectives: Mapping[str, float]) -> bool:
    """Returns whether a response meets every objective, in milliseconds.

    A single token has no time per output token and meets that objective.
    """
    reached = {
        "ttft": answer.ttft,
        "tpot": answer.tpot or 0.0,
        "e2el": answer.latency,
    }
    return all(
        reached[name] * MILLISECONDS <= most for name, most in objectives.items()
    )


def peak_output(answers: Sequence[Answer]) -> float:
    """Returns the tokens of the best second, counted from the first request."""
    if not answers:
        return 0.0
    start = min(answer.sent_at for answer in answers)
    times = np.concatenate([np.asarray(answer.times) for answer in answers])
    counts = np.concatenate([np.asarray(answer.counts) for answer in answers])
    seconds = (times - start).astype(np.int64)
    return float(np.bincount(seconds, weights=counts).max())


def peak_concurrent(answers: Sequence[Answer]) -> int:
    """Returns the maximum number of concurrent requests."""
    # At the same time, ends come before starts.
    moments = sorted(
        [(answer.sent_at, 1) for answer in answers]
        + [(answer.ended_at, -1) for answer in answers]
    )
    steps = np.cumsum([step for _, step in moments])
    return int(steps.max()) if moments else 0


def _goodput(
    good: Sequence[Answer], objectives: Mapping[str, float], seconds: float
) -> float:
    return sum(is_good(answer, objectives) for answer in good) / seconds
