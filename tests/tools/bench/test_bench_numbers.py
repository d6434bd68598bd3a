"""From answers with known times to the numbers and lines of the report."""

from collections.abc import Sequence

import pytest

from hookline_bench.answer import Answer
from hookline_bench.load import Run
from hookline_bench.percentiles import summarize
from hookline_bench.serve_numbers import (
    LATENCY_METRICS,
    ServeNumbers,
    is_good,
    peak_concurrent,
    peak_output,
    serve_numbers,
)
from hookline_bench.serve_report import ServeReport, details
from hookline_bench.spec_decode import SpecDecodeCounts


def answer(
    times: Sequence[float],
    counts: Sequence[int] | None = None,
    *,
    sent: float = 0.0,
    due: float = 0.0,
    error: str | None = None,
) -> Answer:
    counts = counts or [1] * len(times)
    return Answer(
        due_at=due,
        sent_at=sent,
        ended_at=times[-1] if times else sent + 1,
        prompt_tokens=10,
        output_tokens=sum(counts),
        times=times,
        counts=counts,
        error=error,
    )


def numbers(answers: list[Answer], **objectives: float) -> ServeNumbers:
    return serve_numbers(
        Run(answers=answers, seconds=2.0),
        metrics=("ttft", "tpot", "itl", "e2el"),
        percentages=(99.0,),
        objectives=objectives,
    )


FIRST = answer([0.1, 0.2, 0.4])
SECOND = answer([0.8, 1.2], [1, 4], sent=0.5, due=0.25)
FAILED = answer([], sent=0.3, error="ConnectionError")


def test_latencies_follow_their_definitions() -> None:
    """
    TTFT, TPOT, ITL and E2EL of a request follow vLLM's definitions.
    """
    assert SECOND.ttft == pytest.approx(0.3)
    assert SECOND.latency == pytest.approx(0.7)
    assert SECOND.tpot == pytest.approx(0.4 / 4)
    assert list(FIRST.intervals()) == pytest.approx([0.1, 0.2])


def test_tokens_that_come_together_share_their_gap() -> None:
    """
    A chunk of four tokens makes four intervals, and their mean is TPOT.
    """
    assert list(SECOND.intervals()) == pytest.approx([0.1] * 4)


def test_one_token_has_no_time_per_output_token() -> None:
    """
    TPOT needs a second token.
    """
    assert answer([0.5]).tpot is None
    assert numbers([answer([0.5])]).latencies["tpot"].mean == 0


def test_every_metric_has_values_of_a_good_answer() -> None:
    """
    Each latency that can be asked for can be computed.
    """
    found = {name: metric.values(SECOND) for name, metric in LATENCY_METRICS.items()}

    assert found["client_queue_time"] == pytest.approx([0.25])
    assert found["e2el_including_client_queue"] == pytest.approx([0.95])
    assert all(len(values) for values in found.values())


def test_failures_count_only_as_failures() -> None:
    """
    A failed request adds to no sum and to no latency.
    """
    found = numbers([FIRST, SECOND, FAILED])

    assert (found.completed, found.failed) == (2, 1)
    assert (found.input_tokens, found.output_tokens) == (20, 8)
    assert found.request_throughput == 1.0
    assert found.output_throughput == 4.0
    assert found.total_throughput == 14.0
    assert found.latencies["ttft"].mean == pytest.approx(200)
    assert found.latencies["e2el"].median == pytest.approx(550)


def test_only_failures_make_zeros() -> None:
    """
    A run in which nothing succeeded has numbers too, all of them 0.
    """
    found = numbers([FAILED], ttft=1.0)

    assert (found.completed, found.failed) == (0, 1)
    assert found.goodput == 0
    assert found.peak_output == 0
    assert found.latencies["itl"].percentiles == {99.0: 0}


@pytest.mark.parametrize(
    ("objectives", "goodput"),
    [
        ({"ttft": 100.0}, 0.5),
        ({"ttft": 99.0}, 0.0),
        ({"ttft": 1000.0, "tpot": 100.5, "e2el": 1000.0}, 0.5),
        ({"e2el": 1000.0}, 1.0),
    ],
)
def test_goodput_counts_requests_that_meet_everything(
    objectives: dict[str, float], goodput: float
) -> None:
    """
    A request is good if it meets all objectives; at the bound it does.
    """
    assert numbers([FIRST, SECOND, FAILED], **objectives).goodput == goodput


def test_a_single_token_meets_any_tpot() -> None:
    """
    What has no time per output token breaks no objective for it.
    """
    assert is_good(answer([0.5]), {"tpot": 0.0})


def test_without_objectives_there_is_no_goodput() -> None:
    """
    Goodput is reported only with objectives.
    """
    assert numbers([FIRST]).goodput is None


def test_peaks() -> None:
    """
    The best second counts every token; concurrency counts failures while they are open.
    """
    assert peak_output([FIRST, SECOND]) == 4
    assert peak_concurrent([FIRST, SECOND, FAILED]) == 2
    assert peak_concurrent([answer([1.0]), answer([2.0], sent=1.0)]) == 1
    assert peak_concurrent([]) == 0


def test_summary_is_of_the_whole_sample() -> None:
    """
    Percentiles interpolate between values.
    """
    summary = summarize([1.0, 2.0, 3.0, 4.0], (50, 90))

    assert (summary.mean, summary.median) == (2.5, 2.5)
    assert summary.deviation == pytest.approx(1.25**0.5)
    assert summary.percentiles == pytest.approx({50: 2.5, 90: 3.7})


SPECULATION = SpecDecodeCounts(
    drafts=10, draft_tokens=30, accepted_tokens=12, by_position={0: 8, 1: 3, 2: 1}
)

REPORT = """\
============ Serving Benchmark Result ============
Successful requests:                     2
Failed requests:                         1
Maximum request concurrency:             4
Request rate configured (RPS):           1.50
Benchmark duration (s):                  2.00
Total input tokens:                      20
Total generated tokens:                  8
Request throughput (req/s):              1.00
Request goodput (req/s):                 0.50
Output token throughput (tok/s):         4.00
Peak output token throughput (tok/s):    4.00
Peak concurrent requests:                2.00
Total token throughput (tok/s):          14.00
---------------Time to First Token----------------
Mean TTFT (ms):                          200.00
Median TTFT (ms):                        200.00
P99 TTFT (ms):                           298.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          125.00
Median TPOT (ms):                        125.00
P99 TPOT (ms):                           149.50
---------------Inter-token Latency----------------
Mean ITL (ms):                           116.67
Median ITL (ms):                         100.00
P99 ITL (ms):                            195.00
----------------End-to-end Latency----------------
Mean E2EL (ms):                          550.00
Median E2EL (ms):                        550.00
P99 E2EL (ms):                           697.00
---------------Speculative Decoding---------------
Acceptance rate (%):                     40.00
Acceptance length:                       2.20
Drafts:                                  10
Draft tokens:                            30
Accepted tokens:                         12
Per-position acceptance (%):
  Position 0:                            80.00
  Position 1:                            30.00
  Position 2:                            10.00
==================================================
"""


def test_report_is_exactly_this() -> None:
    """
    The lines are the field's, to the blank: numbers fill ten characters.
    """
    report = ServeReport(
        numbers=numbers([FIRST, SECOND, FAILED], ttft=100.0),
        max_concurrency=4,
        request_rate=1.5,
        speculation=SPECULATION,
    )

    lines = list(report.lines())
    assert [line.rstrip() for line in lines] == REPORT.splitlines()
    assert {len(line) for line in lines if line[-1] == " "} == {51}


def test_lines_that_were_not_asked_for_are_left_out() -> None:
    """
    Without a rate, a limit, objectives and speculation the report is silent of them.
    """
    text = "\n".join(ServeReport(numbers=numbers([FIRST])).lines())

    for word in ("configured", "Maximum", "goodput", "Speculative"):
        assert word not in text


def test_fields_have_the_fields_names() -> None:
    """
    The machine's result has every number under the name that others read it by.
    """
    numbers_of_run = serve_numbers(
        Run(answers=[FIRST, SECOND, FAILED], seconds=2.0),
        metrics=("ttft",),
        percentages=(50.0, 99.9),
        objectives={},
    )

    fields = ServeReport(numbers=numbers_of_run, speculation=SPECULATION).fields()

    assert set(fields) == {
        *("duration", "completed", "failed", "total_input_tokens"),
        *("total_output_tokens", "request_throughput", "request_goodput"),
        *("output_throughput", "total_token_throughput", "max_output_tokens_per_s"),
        *("max_concurrent_requests", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms"),
        *("p50_ttft_ms", "p99.9_ttft_ms", "spec_decode_acceptance_rate"),
        *("spec_decode_acceptance_length", "spec_decode_num_drafts"),
        *("spec_decode_draft_tokens", "spec_decode_accepted_tokens"),
        "spec_decode_per_position_acceptance_rates",
    }
    assert fields["request_goodput"] is None
    assert fields["spec_decode_per_position_acceptance_rates"] == [0.8, 0.3, 0.1]


def test_details_are_a_list_over_the_requests() -> None:
    """
    Each list has an entry a request, a failed one's too.
    """
    found = details(Run(answers=[FIRST, FAILED], seconds=2.0))

    assert {len(values) for values in found.values()} == {2}
    assert found["output_lens"] == [3, 0]
    assert found["itls"] == [pytest.approx([0.1, 0.2]), []]
    assert found["errors"] == ["", "ConnectionError"]
