"""Exponential buckets beside classic ones, from the same observations."""

import dataclasses
import math
import random
from functools import reduce

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import DetailedTrace, EngineConfig, ObserverConfig
from hookline.payloads import HttpAnswered, HttpExchange
from hookline.stats.finished_request import FinishedGroup
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_metrics import DIALECTS, HistogramValue, Kind, NativeBuckets, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_testing.payloads import FACTS, FINISHED, RECORD, make_started, make_step

ENGINES = (0, 1, 2)
Key = tuple[str, tuple[str, ...]]


def make_recorder(schema: int | None, clock: VirtualClock | None = None) -> Recorder:
    """Three engines, in all dialects, with all features of requests."""
    metrics = MetricsConfig(dialects=DIALECTS, show_hidden_for_version="0.0")
    observers = ObserverConfig(detailed_traces=(DetailedTrace.ALL,))
    config = EngineConfig(observers=observers, sections={"metrics": metrics})
    recorder = Recorder(config, clock=clock or VirtualClock(), native_schema=schema)
    for index in ENGINES:
        facts = dataclasses.replace(FACTS, engine_index=index)
        recorder.engine_started(make_started(facts))
    return recorder


def feed(recorder: Recorder, *, steps: int, seed: int = 1) -> None:
    """Adds steps and HTTP exchanges with latencies from microseconds to hours."""
    source = random.Random(seed)  # noqa: S311 - no secret

    def seconds() -> float:
        return source.choice((0.0, 1.0, 2.0**-10, source.lognormvariate(-4, 3)))

    for step in range(steps):
        request = dataclasses.replace(
            FINISHED,
            prompt_tokens=source.randrange(5000) + 5,
            output_tokens=source.randrange(900),
            e2e_seconds=seconds(),
            tpot_seconds=seconds(),
            forward_seconds=seconds(),
        )
        iteration = IterationStats(
            first_tokens=(FirstToken(seconds=seconds(), prefill_seconds=seconds()),),
            inter_token_seconds=tuple((seconds(), 1 + n) for n in range(step % 4)),
            finished=(request,) * (step % 3),
            finished_groups=(FinishedGroup(requests=(request,)),),
        )
        record = msgspec.structs.replace(RECORD, engine_index=ENGINES[step % 3])
        recorder.step_finished(make_step(iteration, record=record))
    exchange = HttpExchange(
        route="/v1/completions",
        method="POST",
        status=200,
        seconds=seconds(),
        request_bytes=100,
        response_bytes=3_000_000_000,
    )
    recorder.http_answered(HttpAnswered(exchanges=(exchange,), in_flight={}))


def histograms(recorder: Recorder, *, with_native: bool) -> dict[Key, HistogramValue]:
    return {
        (family.name, sample.labels): sample.value
        for family in recorder.snapshot(with_native=with_native)
        for sample in family.samples
        if isinstance(sample.value, HistogramValue) and family.kind is Kind.HISTOGRAM
    }


@pytest.mark.parametrize("schema", [-4, 0, 3, 8])
def test_every_observation_is_in_both_kinds_of_buckets(schema: int) -> None:
    """In each series of each dialect, of one engine or several, both counts agree at
    any time, and still when the resolution was halved."""
    recorder = make_recorder(schema)

    for round_ in range(3):
        feed(recorder, steps=40, seed=round_)
        found = histograms(recorder, with_native=True)

        assert sum(value.count for value in found.values()) > 1000
        for value in found.values():
            assert value.native is not None
            assert value.native.schema == schema
            assert value.native.count == value.count
            assert value.native.limited(8).count == value.count


def test_restarted_engines_count_on() -> None:
    """A restart changes neither kind of buckets."""
    recorder = make_recorder(3)
    feed(recorder, steps=30)
    before = histograms(recorder, with_native=True)

    recorder.engine_started(make_started(FACTS))

    assert histograms(recorder, with_native=True) == before


def test_classic_buckets_are_as_without_native_ones() -> None:
    """Counting exponential buckets changes no bucket, count or sum of the text."""
    plain, native = make_recorder(None), make_recorder(3)
    for recorder in (plain, native):
        feed(recorder, steps=60)

    expected = histograms(plain, with_native=False)

    assert histograms(native, with_native=False) == expected
    assert histograms(plain, with_native=True) == expected


def test_exemplars_stay_in_their_classic_buckets() -> None:
    """The newest exemplar of a classic bucket is kept, in whichever finer one it is."""
    clock = VirtualClock()
    plain, native = make_recorder(None, clock), make_recorder(5, clock)
    for number, seconds in enumerate((0.0104, 0.0111, 0.0102, 0.4)):
        first = FirstToken(
            seconds=seconds, prefill_seconds=seconds, trace_id=f"t{number}"
        )
        clock.sleep(1)
        for recorder in (plain, native):
            recorder.step_finished(make_step(IterationStats(first_tokens=(first,))))

    expected = histograms(plain, with_native=False)

    assert histograms(native, with_native=False) == expected
    key = ("hookline_time_to_first_token_seconds", ("tiny", "0"))
    assert {each.trace_id for each in expected[key].exemplars.values()} == {"t2", "t3"}


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("hookline_request_model_forward_seconds", 1),
        ("vllm:model_forward_time_milliseconds", 1000),
    ],
)
def test_values_are_in_the_buckets_of_their_size(name: str, scale: int) -> None:
    """Each value is in the bucket that ends above it, in the unit of the name."""
    values = (0.0007, 0.0123, 0.5, 77.0)
    recorder = make_recorder(3)
    for value in (0.0, *values):
        request = dataclasses.replace(FINISHED, forward_seconds=value)
        recorder.step_finished(make_step(IterationStats(finished=(request,))))

    native = histograms(recorder, with_native=True)[name, ("tiny", "0")].native

    indices = [math.ceil(math.log2(value * scale) * 2**3) for value in values]
    assert native == NativeBuckets(3, 1, dict.fromkeys(indices, 1))


def test_series_of_engines_are_added_up() -> None:
    """A family without a label for the engine has the sum of all engines' buckets."""
    recorder = make_recorder(3)
    feed(recorder, steps=60)

    found = histograms(recorder, with_native=True)

    ours = [
        value.native
        for (name, _), value in found.items()
        if name == "hookline_inter_token_seconds" and value.native
    ]
    [theirs] = [
        value.native
        for (name, _), value in found.items()
        if name == "sglang:inter_token_latency_seconds"
    ]
    assert len(ours) == len(ENGINES)
    assert theirs == reduce(NativeBuckets.added, ours)
    assert theirs is not None
    assert theirs.count > 100
