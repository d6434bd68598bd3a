"""The report of `hookline bench serve`: lines for people, fields for machines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hookline_bench.load import Run
from hookline_bench.percentiles import percentage_word
from hookline_bench.serve_numbers import LATENCY_METRICS, ServeNumbers
from hookline_bench.spec_decode import SpecDecodeCounts

WIDTH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeReport:
    """The content of a report.

    Attributes:
        request_rate: Requested rate; None if all requests were sent at once or along a
            ramp.
        speculation: Counts of speculative decoding, if the server used it.
    """

    numbers: ServeNumbers
    max_concurrency: int | None = None
    request_rate: float | None = None
    speculation: SpecDecodeCounts | None = None

    def lines(self) -> Iterable[str]:
        """Yields the lines of the report."""
        yield " Serving Benchmark Result ".center(WIDTH, "=")
        yield from self._totals()
        for name, summary in self.numbers.latencies.items():
            metric = LATENCY_METRICS[name]
            yield metric.title.center(WIDTH, "-")
            yield _line(f"Mean {metric.short} (ms):", summary.mean)
            yield _line(f"Median {metric.short} (ms):", summary.median)
            for percentage, value in summary.percentiles.items():
                word = percentage_word(percentage)
                yield _line(f"P{word} {metric.short} (ms):", value)
        if self.speculation is not None:
            yield from _speculation(self.speculation)
        yield "=" * WIDTH

    def fields(self) -> dict[str, object]:
        """Returns the fields of the result file."""
        numbers = self.numbers
        fields: dict[str, object] = {
            "duration": numbers.seconds,
            "completed": numbers.completed,
            "failed": numbers.failed,
            "total_input_tokens": numbers.input_tokens,
            "total_output_tokens": numbers.output_tokens,
            "request_throughput": numbers.request_throughput,
            "request_goodput": numbers.goodput,
            "output_throughput": numbers.output_throughput,
            "total_token_throughput": numbers.total_throughput,
            "max_output_tokens_per_s": numbers.peak_output,
            "max_concurrent_requests": numbers.peak_concurrent,
        }
        for name, summary in numbers.latencies.items():
            fields[f"mean_{name}_ms"] = summary.mean
            fields[f"median_{name}_ms"] = summary.median
            fields[f"std_{name}_ms"] = summary.deviation
            for percentage, value in summary.percentiles.items():
                fields[f"p{percentage_word(percentage)}_{name}_ms"] = value
        return fields | _speculation_fields(self.speculation)

    def _totals(self) -> Iterable[str]:
        numbers = self.numbers
        yield _line("Successful requests:", numbers.completed)
        yield _line("Failed requests:", numbers.failed)
        if self.max_concurrency is not None:
            yield _line("Maximum request concurrency:", self.max_concurrency)
        if self.request_rate is not None:
            yield _line("Request rate configured (RPS):", self.request_rate)
        yield _line("Benchmark duration (s):", numbers.seconds)
        yield _line("Total input tokens:", numbers.input_tokens)
        yield _line("Total generated tokens:", numbers.output_tokens)
        yield _line("Request throughput (req/s):", numbers.request_throughput)
        if numbers.goodput is not None:
            yield _line("Request goodput (req/s):", numbers.goodput)
        yield _line("Output token throughput (tok/s):", numbers.output_throughput)
        yield _line("Peak output token throughput (tok/s):", numbers.peak_output)
        yield _line("Peak concurrent requests:", float(numbers.peak_concurrent))
        yield _line("Total token throughput (tok/s):", numbers.total_throughput)


def details(run: Run) -> Mapping[str, list[object]]:
    """Returns the measurements of each request, in planned order."""
    good = [answer.error is None for answer in run.answers]
    pairs = list(zip(run.answers, good, strict=True))
    return {
        "input_lens": [answer.prompt_tokens for answer, _ in pairs],
        "output_lens": [answer.output_tokens if ok else 0 for answer, ok in pairs],
        "ttfts": [answer.ttft if ok else 0.0 for answer, ok in pairs],
        "itls": [list(answer.intervals()) if ok else [] for answer, ok in pairs],
        "latencies": [answer.latency if ok else 0.0 for answer, ok in pairs],
        "start_times": [answer.sent_at for answer, _ in pairs],
        "queue_times": [answer.sent_at - answer.due_at for answer, _ in pairs],
        "errors": [answer.error or "" for answer, _ in pairs],
    }


def _line(title: str, value: float) -> str:
    number = f"{value:<10}" if isinstance(value, int) else f"{value:<10.2f}"
    return f"{title:<40} {number}"


def _speculation(counts: SpecDecodeCounts) -> Iterable[str]:
    yield "Speculative Decoding".center(WIDTH, "-")
    yield _line("Acceptance rate (%):", counts.acceptance_rate)
    yield _line("Acceptance length:", counts.acceptance_length)
    yield _line("Drafts:", int(counts.drafts))
    yield _line("Draft tokens:", int(counts.draft_tokens))
    yield _line("Accepted tokens:", int(counts.accepted_tokens))
    if counts.by_position:
        yield "Per-position acceptance (%):"
    for position, rate in enumerate(counts.position_rates):
        yield _line(f"  Position {position}:", rate * 100)


def _speculation_fields(counts: SpecDecodeCounts | None) -> dict[str, object]:
    if counts is None:
        return {}
    return {
        "spec_decode_acceptance_rate": counts.acceptance_rate,
        "spec_decode_acceptance_length": counts.acceptance_length,
        "spec_decode_num_drafts": int(counts.drafts),
        "spec_decode_draft_tokens": int(counts.draft_tokens),
        "spec_decode_accepted_tokens": int(counts.accepted_tokens),
        "spec_decode_per_position_acceptance_rates": counts.position_rates,
    }
