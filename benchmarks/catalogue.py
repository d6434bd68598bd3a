"""Measures the cost of updating all metrics for one step of 256 requests.

usage: python benchmarks/catalogue.py [--requests 256] [--rounds 15] [--schema 3]

Hookline adds a step's numbers to plain sums, in bulk. The baseline makes the calls of
an engine that uses prometheus_client directly: 18 per step, and one per request for its
inter-token interval. Both run in turn in this process; prints the median and range of
the rounds in microseconds per step.

Hookline counts with exponential buckets of native histograms, as the prometheus logger
does, and without them.

decode     every request gets a token, all after the same interval: the usual case
finishing  the same, and two requests end in it
uneven     every request gets a token after a different interval: the worst case
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hookline import EngineConfig
from hookline.events import StepRecord
from hookline.payloads import StepFinished
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import StepWork
from hookline_metrics import Recorder
from hookline_testing.payloads import FINISHED, make_started, make_step

STEPS_A_ROUND = 300
THEIR_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80),
)
"""vLLM's buckets of inter-token latency; ours are finer."""

FIXED_GAUGES, FIXED_COUNTERS, FIXED_HISTOGRAMS = 4, 12, 2


def make_steps(requests: int) -> dict[str, StepFinished]:
    record = StepRecord(
        step=1,
        engine_index=0,
        started_at=0,
        scheduled_at=1_000_000,
        executed_at=9_000_000,
        ended_at=10_000_000,
        request_tokens=[(number, 1) for number in range(requests)],
        work=StepWork(
            prefill_requests=0,
            prefill_tokens=0,
            decode_requests=requests,
            decode_tokens=requests,
        ),
    )
    state = SchedulerStats(running=requests, kv_blocks=1000, kv_blocks_used=500)
    usual = IterationStats(
        generation_tokens=requests, inter_token_seconds=((0.01, requests),)
    )
    uneven = tuple((0.01 + number * 1e-5, 1) for number in range(requests))
    brought = {
        "decode": usual,
        "finishing": dataclasses.replace(usual, finished=(FINISHED, FINISHED)),
        "uneven": dataclasses.replace(usual, inter_token_seconds=uneven),
    }
    return {
        name: make_step(iteration, state, record=record)
        for name, iteration in brought.items()
    }


def recorder(native_schema: int | None) -> Recorder:
    made = Recorder(EngineConfig(), native_schema=native_schema)
    made.engine_started(make_started())
    return made


def direct_calls(requests: int) -> Callable[[], None]:
    """Makes one step's calls of an engine that uses prometheus_client directly."""
    registry = CollectorRegistry()
    labels = ["model_name", "engine"]
    values = ("tiny", "0")
    gauges = [
        Gauge(f"g{n}", "g", labels, registry=registry).labels(*values)
        for n in range(FIXED_GAUGES)
    ]
    counters = [
        Counter(f"c{n}", "c", labels, registry=registry).labels(*values)
        for n in range(FIXED_COUNTERS)
    ]
    histograms = [
        Histogram(f"h{n}", "h", labels, buckets=THEIR_BOUNDS, registry=registry).labels(
            *values
        )
        for n in range(FIXED_HISTOGRAMS + 1)
    ]

    def step() -> None:
        for gauge in gauges:
            gauge.set(requests)
        for counter in counters:
            counter.inc(requests)
        for histogram in histograms[1:]:
            histogram.observe(0.01)
        observe = histograms[0].observe
        for _ in range(requests):
            observe(0.01)

    return step


def microseconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(STEPS_A_ROUND):
        call()
    return (time.perf_counter() - start) / STEPS_A_ROUND * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--schema", type=int, default=3, help="of native histograms")
    options = parser.parse_args()
    schemas = {"Hookline": options.schema, "without native": None}
    sides: dict[str, Callable[[], None]] = {
        f"{side}, {name}": partial(recorder(schema).step_finished, step)
        for name, step in make_steps(options.requests).items()
        for side, schema in schemas.items()
    }
    sides["prometheus_client, call by call"] = direct_calls(options.requests)
    rounds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, call in sides.items():
            rounds[name].append(microseconds(call))
    print(f"one step of {options.requests} requests, us")
    for name, found in rounds.items():
        middle = statistics.median(found)
        print(f"  {name}: {middle:.1f} ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    main()
