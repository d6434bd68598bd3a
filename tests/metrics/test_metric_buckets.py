"""Upper bounds of the bucket families."""

from itertools import accumulate, pairwise

import pytest

from hookline.clock import VirtualClock
from hookline.config import EngineConfig
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_metrics import DIALECTS, Family, HistogramValue, Recorder
from hookline_metrics.buckets import BucketFamily, bounds_of, one_two_five
from hookline_metrics.config import MetricsConfig
from hookline_testing.payloads import make_started, make_step
from hookline_testing.table_walk import for_each_row

FINEST, COARSEST = 0.0005, 60.0

THEIRS = {
    BucketFamily.TIME_TO_FIRST_TOKEN: (
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
        *(1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
    ),
    BucketFamily.INTER_TOKEN_LATENCY: (
        *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
        *(1, 2.5, 5, 7.5, 10, 20, 40, 80),
    ),
    BucketFamily.SGLANG_TTFT: (
        *(0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10),
        *(20, 40, 60, 80, 100, 200, 400),
    ),
    BucketFamily.SGLANG_INTER_TOKEN: (
        *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04),
        *(0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
    ),
}
"""The bounds of vLLM 0.33 and of SGLang 0.5."""

OF_TOKENS = (
    "hookline_inter_token_seconds",
    "hookline_time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:time_to_first_token_seconds",
    "sglang:inter_token_latency_seconds",
    "sglang:time_to_first_token_seconds",
)
OF_REQUESTS = (
    "hookline_request_time_per_output_token_seconds",
    "vllm:request_time_per_output_token_seconds",
    "sglang:request_time_per_output_token_seconds",
)


def make_recorder(**buckets: tuple[float, ...]) -> Recorder:
    """A recorder of all dialects whose engine has started."""
    metrics = MetricsConfig(dialects=DIALECTS, histogram_buckets=buckets)
    config = EngineConfig(sections={"metrics": metrics})
    recorder = Recorder(config, clock=VirtualClock())
    recorder.engine_started(make_started())
    return recorder


def histograms(recorder: Recorder) -> dict[str, list[HistogramValue]]:
    return {family.name: histograms_of(family) for family in recorder.snapshot()}


def histograms_of(family: Family) -> list[HistogramValue]:
    return [
        sample.value
        for sample in family.samples
        if isinstance(sample.value, HistogramValue)
    ]


def number_of_series(recorder: Recorder) -> int:
    """Returns the lines of a page: buckets, their infinity, count and sum."""
    return sum(
        len(sample.value.bounds) + 3 if isinstance(sample.value, HistogramValue) else 1
        for family in recorder.snapshot()
        for sample in family.samples
    )


@for_each_row("family", list(BucketFamily))
def test_bounds_rise_strictly(family: BucketFamily) -> None:
    """Every family's bounds are positive and strictly increasing."""
    bounds = bounds_of(family, 32768)

    assert bounds[0] > 0
    assert list(bounds) == sorted(set(bounds))


def test_request_tokens_end_at_the_context_length() -> None:
    """A context of 32768 tokens gives the 14 bounds from 1 to 20000."""
    bounds = bounds_of(BucketFamily.REQUEST_TOKENS, 32768)

    assert bounds == (
        *(1, 2, 5, 10, 20, 50, 100, 200, 500),
        *(1000, 2000, 5000, 10000, 20000),
    )


@pytest.mark.parametrize(
    ("limit", "bounds"),
    [
        (1, (1,)),
        (2, (1, 2)),
        (4, (1, 2)),
        (10, (1, 2, 5, 10)),
        (99, (1, 2, 5, 10, 20, 50)),
    ],
)
def test_one_two_five_keeps_to_its_limit(limit: int, bounds: tuple[int, ...]) -> None:
    """The series holds every 1-2-5 step up to the limit, the limit included."""
    assert one_two_five(limit) == bounds


@pytest.mark.parametrize("family", THEIRS)
def test_queries_for_their_bounds_find_them(family: BucketFamily) -> None:
    """Refined families have every bound of vLLM or SGLang."""
    assert set(bounds_of(family, 1)) >= set(THEIRS[family])


@pytest.mark.parametrize("family", THEIRS)
def test_refined_buckets_resolve_half_a_millisecond_to_a_minute(
    family: BucketFamily,
) -> None:
    """From 0.5 ms to 60 s no bucket ends above twice its start."""
    bounds = bounds_of(family, 1)

    assert bounds[0] == FINEST
    assert bounds[-1] >= COARSEST
    wide = [
        (start, end)
        for start, end in pairwise(bounds)
        if start < COARSEST and end > 2 * start
    ]
    assert wide == []


@pytest.mark.parametrize("name", OF_TOKENS)
@pytest.mark.parametrize("seconds", [0.0006, 0.0042, 0.017, 0.12, 1.4, 9.0, 55.0])
def test_latency_of_tokens_is_known_within_a_factor_of_two(
    name: str, seconds: float
) -> None:
    """In every dialect a latency falls into a bucket that is close around it."""
    recorder = make_recorder()

    recorder.step_finished(
        make_step(
            IterationStats(
                first_tokens=(FirstToken(seconds=seconds),),
                inter_token_seconds=((seconds, 3),),
            )
        )
    )

    [value] = [value for value in histograms(recorder)[name] if value.count]
    bucket = next(index for index, count in enumerate(value.counts) if count)
    start, end = value.bounds[bucket - 1], value.bounds[bucket]
    assert start < seconds <= end <= 2 * start


def test_median_of_millisecond_intervals_is_theirs() -> None:
    """1000 intervals of 3.1 to 4.9 ms have their median between 4 and 5 ms."""
    recorder = make_recorder()
    intervals = tuple((0.0031 + 0.0018 * n / 999, 1) for n in range(1000))

    recorder.step_finished(make_step(IterationStats(inter_token_seconds=intervals)))

    for name in ("hookline_inter_token_seconds", "vllm:inter_token_latency_seconds"):
        [value] = histograms(recorder)[name]
        counts = dict(zip(value.bounds, accumulate(value.counts), strict=False))
        assert (counts[0.003], counts[0.004], counts[0.005]) == (0, 500, 1000)


@pytest.mark.parametrize("name", OF_REQUESTS)
def test_time_per_output_token_has_the_bounds_of_intervals(name: str) -> None:
    """Time per output token resolves as intervals do, in every dialect."""
    for value in histograms(make_recorder())[name]:
        assert value.bounds[0] == FINEST
        assert value.bounds in {
            bounds_of(BucketFamily.INTER_TOKEN_LATENCY, 1),
            bounds_of(BucketFamily.SGLANG_INTER_TOKEN, 1),
        }


def test_finer_buckets_add_few_series_at_idle() -> None:
    """An idle page of all dialects has at most a tenth more series than with their
    bounds."""
    plain = make_recorder(**{family.value: THEIRS[family] for family in THEIRS})

    assert number_of_series(make_recorder()) <= 1.1 * number_of_series(plain)
