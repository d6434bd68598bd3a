"""Changes between two results, and what is noise."""

import numpy as np
import pytest

from hookline_bench.answer import Answer
from hookline_bench.comparison.bootstrap import intervals, mean, percentile
from hookline_bench.comparison.changes import Change, Judge, Verdict
from hookline_bench.comparison.report import Comparison
from hookline_bench.comparison.sample import Benchmark, Result, Sample
from hookline_bench.comparison.serve_samples import serve_samples
from hookline_bench.load import Run
from hookline_bench.serve_report import details

JUDGE = Judge(resamples=1000)


def drawn(mean_of: float, *, seed: int, count: int = 200) -> list[float]:
    source = np.random.default_rng(seed)
    return [float(each) for each in source.normal(mean_of, 10.0, count)]


def result(values: list[float], *, least: float = 0.0) -> Result:
    sample = Sample(
        metric="TTFT", phase="prefill", unit="ms", values=values, least=least
    )
    return Result(benchmark=Benchmark.SERVE, samples=(sample,))


def change(first: list[float], second: list[float], judge: Judge = JUDGE) -> Change:
    return judge.changes(result(first), result(second))[0]


@pytest.mark.parametrize(
    ("mean_of", "verdict"),
    [
        (110.0, Verdict.WORSE),
        (90.0, Verdict.BETTER),
        (100.5, Verdict.NOISE),
    ],
)
def test_only_what_exceeds_the_noise_is_a_change(
    mean_of: float, verdict: Verdict
) -> None:
    """
    A mean that moves by a standard deviation is found; one that moves by a twentieth
    of it is noise.
    """
    found = change(drawn(100.0, seed=1), drawn(mean_of, seed=2))

    assert found.verdict is verdict
    assert found.statistic == "mean"
    assert found.interval is not None
    low, high = found.interval
    assert low < found.difference < high


def test_interval_agrees_with_the_formula() -> None:
    """
    The interval of a difference of means is that of the normal distribution.
    """
    first, second = drawn(100.0, seed=1, count=400), drawn(105.0, seed=2, count=400)

    ((low, high),) = intervals(
        first,
        second,
        [mean],
        confidence=0.95,
        resamples=4000,
        source=np.random.default_rng(0),
    )

    error = (np.var(first) / 400 + np.var(second) / 400) ** 0.5
    difference = np.mean(second) - np.mean(first)
    assert low == pytest.approx(difference - 1.96 * error, abs=0.1)
    assert high == pytest.approx(difference + 1.96 * error, abs=0.1)


def test_percentiles_have_intervals_of_their_own() -> None:
    """
    A tail that grows is found where the mean hardly moves.
    """
    first = [100.0] * 80 + [200.0] * 20
    second = [100.0] * 80 + [220.0] * 20

    of_mean, of_tail = intervals(
        first,
        second,
        [mean, percentile(90)],
        confidence=0.95,
        resamples=1000,
        source=np.random.default_rng(0),
    )

    assert of_mean[0] < 0 < of_mean[1]
    assert of_tail == pytest.approx((20.0, 20.0))


def test_unchanged_systems_are_seldom_accused() -> None:
    """
    Of a hundred comparisons of equal systems about as many find a change as the
    confidence allows, all percentiles taken together.
    """
    judge = Judge(resamples=500, min_change=0.0, percentages=(50.0, 90.0))

    accused = 0
    for seed in range(100):
        pair = [result(drawn(100.0, seed=2 * seed + each)) for each in range(2)]
        found = {each.verdict for each in judge.changes(*pair)}
        accused += found != {Verdict.NOISE}

    assert accused <= 8


def test_seed_repeats_the_judgement() -> None:
    """
    The same results have the same intervals each time.
    """
    first, second = drawn(100.0, seed=1), drawn(101.0, seed=2)

    assert change(first, second) == change(first, second)
    assert change(first, second) != change(first, second, Judge(resamples=1000, seed=1))


def test_significant_changes_may_be_too_small() -> None:
    """
    A change that is certain but below the percentage does not matter.
    """
    first, second = [100.0] * 20, [104.0] * 20

    assert change(first, second).verdict is Verdict.WORSE
    assert change(first, second, Judge(min_change=5.0)).verdict is Verdict.SMALL


def test_jitter_is_no_change() -> None:
    """
    A difference below a metric's resolution does not matter, however large in percent.
    """
    first, second = result([0.1] * 20, least=1.0), result([0.9] * 20, least=1.0)

    assert JUDGE.changes(first, second)[0].verdict is Verdict.SMALL


def test_few_values_are_not_judged() -> None:
    """
    Nine values make no interval.
    """
    found = change([1.0] * 9, [5.0] * 100)

    assert found.verdict is Verdict.TOO_FEW
    assert found.interval is None
    assert (found.first, found.second, found.percent) == (1.0, 5.0, 400.0)


def test_metrics_of_one_result_are_left_out() -> None:
    """
    Only metrics with values in both results are compared.
    """
    assert JUDGE.changes(result([1.0] * 20), result([])) == []


def test_change_from_nothing_has_no_percentage() -> None:
    """
    A metric that was 0 has a difference only.
    """
    found = change([0.0] * 20, [3.0] * 20)

    assert (found.difference, found.percent) == (3.0, None)
    assert found.verdict is Verdict.WORSE


def answer(sent: float, times: list[float], error: str | None = None) -> Answer:
    return Answer(
        due_at=sent - 0.5,
        sent_at=sent,
        ended_at=sent + 9,
        prompt_tokens=7,
        output_tokens=len(times),
        times=times,
        counts=[1] * len(times),
        error=error,
    )


def test_samples_of_a_run_follow_the_definitions() -> None:
    """
    Phases of requests are what the answers' own times say, and failures count.
    """
    answers = [answer(1.0, [1.5, 2.5, 3.0]), answer(2.0, [2.25]), answer(3, [], "gone")]
    fields = details(Run(answers=answers, seconds=9.0))

    limited = {**fields, "max_concurrency": 1}

    found = {each.metric: each for each in serve_samples(limited)}

    assert {name: list(each.values) for name, each in found.items()} == {
        "failed": [0.0, 0.0, 100.0],
        "client queue": [500.0, 500.0],
        "TTFT": [500.0, 250.0],
        "TPOT": [750.0],
        "decode": [1500.0, 0.0],
        "E2EL": [2000.0, 250.0],
    }
    assert found["failed"].is_share
    assert "client queue" not in {each.metric for each in serve_samples(fields)}


def test_lists_of_different_lengths_are_refused() -> None:
    """
    Requests whose measurements are incomplete cannot be told apart.
    """
    fields = {"ttfts": [1.0], "itls": [[], []], "output_lens": [1], "errors": [""]}

    with pytest.raises(ValueError, match="different numbers of requests"):
        list(serve_samples(fields))


def test_report_names_what_is_worse() -> None:
    """
    The report has a row for each statistic, differing settings, and a conclusion.
    """
    first = Result(
        benchmark=Benchmark.SERVE,
        samples=result([100.0] * 20).samples,
        conditions={"request_rate": 5, "backend": "openai"},
        totals={"Benchmark duration (s)": 10.0},
    )
    second = Result(
        benchmark=Benchmark.SERVE,
        samples=result([110.0] * 20).samples,
        conditions={"request_rate": 6, "backend": "openai"},
        totals={"Benchmark duration (s)": 12.0},
    )

    report = Comparison(
        first=first, second=second, changes=JUDGE.changes(first, second)
    )

    assert "\n".join(report.lines()) == (
        "The runs differ in request_rate: 5 and 6\n"
        "metric          phase    A       B       change   interval of B - A  verdict\n"
        "TTFT mean (ms)  prefill  100.00  110.00  +10.0 %  +10.00 to +10.00   worse\n"
        "TTFT P90 (ms)   prefill  100.00  110.00  +10.0 %  +10.00 to +10.00   worse\n"
        "Benchmark duration (s): 10.00 -> 12.00 +20.0 % (one value a run)\n"
        "B is worse in TTFT mean, TTFT P90."
    )
    assert report.fields()["regression"] is True
