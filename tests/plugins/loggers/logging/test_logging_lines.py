"""Which lines the logging plugin writes, and when."""

import dataclasses
import io
import json

import pytest

from hookline.clock import VirtualClock
from hookline.events import Preempted, PreemptionCause
from hookline.payloads import EngineFailed, EngineStopped, RequestsPreempted
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import (
    EngineTotals,
    PrefixCacheCounts,
    SchedulerStats,
)
from hookline_logging import LineFormat, StateLogger
from hookline_logging.output import make_log
from hookline_testing.payloads import (
    FACTS,
    FINISHED,
    make_started,
    make_state,
    make_step,
)

TOKENS = IterationStats(
    prompt_tokens_computed=30, prompt_tokens_local=20, generation_tokens=10
)
RUNNING = SchedulerStats(
    running=2,
    waiting=1,
    held={"grammar": 2, "remote_kv": 4},
    kv_blocks=40,
    kv_blocks_used=10,
)
IDLE = SchedulerStats(kv_blocks=40)


class Bench:
    """A logger with a clock that is moved by hand, and the lines it wrote."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.stream = io.StringIO()
        self.logger = StateLogger(
            make_log(LineFormat.JSON, self.stream), self.clock, interval_seconds=5
        )

    def lines(self) -> list[dict[str, object]]:
        """What was written since the last call, without times."""
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        self.stream.seek(0)
        self.stream.truncate()
        return [
            {key: value for key, value in line.items() if key != "timestamp"}
            for line in lines
        ]

    def beat(self, seconds: int, scheduler: SchedulerStats) -> None:
        """A heartbeat each second, for so long."""
        for _ in range(seconds):
            self.clock.sleep(1)
            self.logger.state_changed(make_state(scheduler=scheduler))


@pytest.fixture
def bench() -> Bench:
    """A bench whose engine has started, its first line read."""
    bench = Bench()
    bench.logger.engine_started(make_started())
    bench.lines()
    return bench


def test_start_is_one_line() -> None:
    """The line at startup has the engine's facts."""
    bench = Bench()

    bench.logger.engine_started(make_started())

    assert bench.lines() == [
        {
            "event": "engine started",
            "level": "info",
            "engine": 0,
            "model": "tiny",
            "architecture": "LlamaForCausalLM",
            "dtype": "float32",
            "max_model_len": 100,
            "kv_blocks": 40,
            "block_size": 16,
            "executor": "simulated",
            "sampling_defaults": "temperature=0.6",
            "sampling_source": "a file",
        }
    ]


def test_line_has_the_interval_s_numbers(bench: Bench) -> None:
    """After five seconds one line has the state and the rates."""
    cache = PrefixCacheCounts(requests=3, queried_tokens=90, hit_tokens=30)
    state = SchedulerStats(
        running=2,
        waiting=1,
        held={"grammar": 2, "remote_kv": 4},
        kv_blocks=40,
        kv_blocks_used=10,
        totals=EngineTotals(prefix_cache=cache),
    )
    bench.logger.step_finished(make_step(TOKENS, RUNNING))

    bench.clock.sleep(5)
    bench.logger.step_finished(make_step(TOKENS, state))

    assert bench.lines() == [
        {
            "event": "engine state",
            "level": "info",
            "engine": 0,
            "running": 2,
            "waiting": 7,
            "kv_cache_usage": 0.25,
            "prompt_tokens_per_second": 20.0,
            "generation_tokens_per_second": 4.0,
            "prefix_cache_hit_rate": 0.3333,
        }
    ]


def test_line_of_an_engine_that_tells_no_cache(bench: Bench) -> None:
    """It has no use of the cache, rather than 0."""
    bench.logger.step_finished(make_step(TOKENS, SchedulerStats(running=1)))
    bench.clock.sleep(5)
    bench.logger.step_finished(make_step(TOKENS, SchedulerStats(running=1)))

    [line] = bench.lines()
    assert line["running"] == 1
    assert "kv_cache_usage" not in line


def test_lines_keep_to_the_interval(bench: Bench) -> None:
    """Steps in between write nothing: there is one line each five seconds."""
    for _ in range(100):
        bench.clock.sleep(0.25)
        bench.logger.step_finished(make_step(TOKENS, RUNNING))

    rates = [line["generation_tokens_per_second"] for line in bench.lines()]
    assert rates == [42.0, 40.0, 40.0, 40.0]


def test_heartbeats_log_during_a_long_step(bench: Bench) -> None:
    """While nothing finishes, the heartbeat still brings a line."""
    bench.logger.step_finished(make_step(IterationStats(), RUNNING))

    bench.beat(5, RUNNING)

    (line,) = bench.lines()
    assert line["running"] == 2
    assert line["generation_tokens_per_second"] == 0


def test_idle_engine_is_silent(bench: Bench) -> None:
    """An engine that never did anything writes nothing after its start."""
    bench.beat(60, IDLE)

    assert bench.lines() == []


def test_exactly_one_line_closes_a_busy_time(bench: Bench) -> None:
    """After the last request one more line is logged, then none."""
    bench.logger.step_finished(make_step(TOKENS, RUNNING))
    bench.beat(5, RUNNING)
    busy = bench.lines()

    bench.beat(60, IDLE)

    closing = bench.lines()
    assert [line["running"] for line in busy] == [2]
    assert [line["running"] for line in closing] == [0]
    assert closing[0]["generation_tokens_per_second"] == 0


def test_short_request_has_one_line(bench: Bench) -> None:
    """A request within one interval is logged in one line."""
    bench.logger.step_finished(make_step(TOKENS, RUNNING))
    bench.logger.step_finished(make_step(TOKENS, IDLE))

    bench.beat(60, IDLE)

    (line,) = bench.lines()
    assert line["running"] == 0
    assert line["generation_tokens_per_second"] == 4.0


def test_request_that_ended_outside_a_step_is_logged(bench: Bench) -> None:
    """An abort alone is something that happened."""
    aborted = IterationStats(finished=(FINISHED,))
    bench.logger.state_changed(make_state(aborted, IDLE))

    bench.beat(60, IDLE)

    assert len(bench.lines()) == 1


def test_pause_does_not_dilute_the_rates(bench: Bench) -> None:
    """The first rates after a pause are over the time since work came back."""
    bench.beat(3600, IDLE)
    bench.logger.step_finished(make_step(TOKENS, RUNNING))

    bench.clock.sleep(5)
    bench.logger.step_finished(make_step(TOKENS, RUNNING))

    (line,) = bench.lines()
    assert line["generation_tokens_per_second"] == 4.0


def test_stop_logs_the_remaining_line(bench: Bench) -> None:
    """A run shorter than the interval leaves its line when the engine stops."""
    bench.logger.step_finished(make_step(TOKENS, RUNNING))
    bench.clock.sleep(2)
    bench.logger.step_finished(make_step(TOKENS, IDLE))

    bench.logger.engine_stopped(EngineStopped(engine_index=0, reason="closed"))

    (line,) = bench.lines()
    assert line["prompt_tokens_per_second"] == 50.0
    assert line["generation_tokens_per_second"] == 10.0


def test_stop_of_an_idle_engine_is_silent(bench: Bench) -> None:
    """The stop logs no line if nothing is new."""
    bench.logger.engine_stopped(EngineStopped(engine_index=0, reason="closed"))

    assert bench.lines() == []


def test_failure_is_one_error(bench: Bench) -> None:
    """The death of an engine is an error line, the last one of this engine."""
    bench.logger.step_finished(make_step(TOKENS, RUNNING))

    bench.logger.engine_failed(
        EngineFailed(engine_index=0, reason="killed by signal 9", open_requests=3)
    )
    bench.beat(60, RUNNING)

    assert bench.lines() == [
        {
            "event": "engine failed",
            "level": "error",
            "engine": 0,
            "reason": "killed by signal 9",
            "open_requests": 3,
        }
    ]


def preempted(*events: Preempted, engine_index: int = 0) -> RequestsPreempted:
    """Preemptions of requests of which 1 and 2 have ids of their clients."""
    facts = {
        1: RequestFacts(client_id="slow"),
        2: RequestFacts(client_id="urgent"),
        3: RequestFacts(),
    }
    return RequestsPreempted(engine_index=engine_index, events=events, facts=facts)


def test_preemption_has_a_line_with_both_requests(bench: Bench) -> None:
    """A warning names victim, beneficiary and cause."""
    bench.logger.requests_preempted(preempted(Preempted(1, 0, 48, beneficiary_id=2)))

    assert bench.lines() == [
        {
            "event": "request preempted",
            "level": "warning",
            "engine": 0,
            "victim": "slow",
            "beneficiary": "urgent",
            "cause": "no_free_blocks",
            "freed_tokens": 48,
        }
    ]


def test_preemption_of_a_traced_request_names_its_span(bench: Bench) -> None:
    """The line is joined to the victim's trace."""
    facts = {1: RequestFacts(client_id="slow", trace_id="ab" * 16, span_id="cd" * 8)}
    events = (Preempted(1, 0, 48),)

    bench.logger.requests_preempted(
        RequestsPreempted(engine_index=0, events=events, facts=facts)
    )

    (line,) = bench.lines()
    assert (line["trace_id"], line["span_id"]) == ("ab" * 16, "cd" * 8)


def test_preemption_without_a_beneficiary_names_none(bench: Bench) -> None:
    """A failed load is of use to nobody, and a request without a client's id is known
    by the engine's."""
    failed = Preempted(3, 0, 16, 16, PreemptionCause.LOAD_FAILED)

    bench.logger.requests_preempted(preempted(failed))

    (line,) = bench.lines()
    assert (line["victim"], line["cause"]) == ("#3", "load_failed")
    assert "beneficiary" not in line


def test_preemptions_have_one_line_a_second(bench: Bench) -> None:
    """However many there are, a second has one line; the next one counts the others."""
    for _ in range(8):
        bench.logger.requests_preempted(
            preempted(Preempted(1, 0, 16), Preempted(2, 0, 16))
        )
        bench.clock.sleep(0.25)

    counts = [line.get("left_out") for line in bench.lines()]
    assert counts == [None, 7]


def test_each_engine_has_its_own_limit_of_preemption_lines(bench: Bench) -> None:
    """One engine's preemptions do not hide those of another."""
    other = dataclasses.replace(FACTS, engine_index=1)
    bench.logger.engine_started(make_started(other))
    bench.lines()

    for index in (0, 1):
        event = Preempted(1, 0, 16)
        bench.logger.requests_preempted(preempted(event, engine_index=index))

    assert [line["engine"] for line in bench.lines()] == [0, 1]


def test_state_counts_the_interval_s_preemptions(bench: Bench) -> None:
    """Those without a line are in the engine's next state, and only in that one."""
    thrashing = IterationStats(generation_tokens=1, preemptions=3)
    bench.logger.step_finished(make_step(thrashing, RUNNING))

    bench.beat(10, RUNNING)

    assert [line.get("preemptions") for line in bench.lines()] == [3, None]


def test_hit_rate_is_over_the_last_thousand_requests(bench: Bench) -> None:
    """Requests further back than a thousand no longer count."""
    cold = PrefixCacheCounts(requests=1000, queried_tokens=10_000, hit_tokens=0)
    warm = PrefixCacheCounts(requests=2000, queried_tokens=20_000, hit_tokens=7_500)
    bench.logger.step_finished(
        make_step(
            TOKENS, SchedulerStats(running=1, totals=EngineTotals(prefix_cache=cold))
        )
    )
    bench.clock.sleep(5)

    bench.logger.step_finished(
        make_step(
            TOKENS, SchedulerStats(running=1, totals=EngineTotals(prefix_cache=warm))
        )
    )

    (line,) = bench.lines()
    assert line["prefix_cache_hit_rate"] == 0.75
