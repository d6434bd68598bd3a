"""Several front ends that have each counted their own requests of one engine."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hookline.events import ClockPair, StepOutput
from hookline.frontend.observing import REQUESTS
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import (
    EngineTotals,
    PrefixCacheCounts,
    SchedulerStats,
)
from hookline_observer.merging import MergedNotices
from hookline_observer.messages import Observed, Started, Stopped
from hookline_testing.payloads import FACTS

SHARED = replace(FACTS, sections={"front_ends": {"count": 2, "state_cause": "state"}})


class Loggers:
    """Keeps the states, starts and stops that loggers are told."""

    def __init__(self) -> None:
        self.started_with: list[int] = []
        self.states: list[StepOutput] = []
        self.stops = 0

    def started(self, *_: object, ended_before: int, **__: object) -> None:
        self.started_with.append(ended_before)

    def observe(self, output: StepOutput, *_: object) -> None:
        self.states.append(output)

    def stopped(self, *_: object) -> None:
        self.stops += 1


def merged(*, ended: tuple[int, int] = (0, 0), since: int = -1) -> SimpleNamespace:
    """Returns merged notices of two front ends that have told an engine's start."""
    loggers: Any = Loggers()
    made = MergedNotices(loggers, page_stats=lambda: (), restarts=0)
    for index in (0, 1):
        assert not loggers.started_with  # until the last one has told it
        clock = ClockPair(wall=0, monotonic=index)
        made.on_notice(
            index, Started(SHARED, clock, ended_before=ended[index], since=since)
        )

    def tell(index: int, at: int, cause: str, **state: Any) -> SchedulerStats:
        output = StepOutput(FACTS.engine_index, at, cause, SchedulerStats(**state))
        made.on_notice(index, Observed(output, IterationStats(), {}))
        stats: SchedulerStats = loggers.states[-1].stats
        return stats

    return SimpleNamespace(loggers=loggers, tell=tell, made=made)


def totals(received: int, finished: int) -> EngineTotals:
    return EngineTotals(
        received=received,
        finished={"length": finished},
        prefix_cache=PrefixCacheCounts(1, received, 0),
    )


def test_what_front_ends_have_counted_is_added_up() -> None:
    """The scheduler's state is the latest, whoever was told it."""
    engine = merged()

    engine.tell(0, 10, "state", running=3, totals=totals(2, 0), waiting_tokens=5)
    stats = engine.tell(1, 20, REQUESTS, running=1, totals=totals(3, 1))

    assert (stats.running, stats.waiting, stats.waiting_tokens) == (3, 1, 5)
    assert (stats.totals.received, stats.totals.finished) == (5, {"length": 1})
    assert stats.totals.prefix_cache.queried_tokens == 5
    stats = engine.tell(1, 30, "state", running=4, totals=totals(3, 1))
    assert stats.running == 4
    assert engine.tell(0, 25, "state", running=9, totals=totals(2, 2)).running == 2


def test_front_end_whose_call_put_the_engine_to_sleep_tells_so() -> None:
    """The others go on telling that it is awake."""
    engine = merged()

    engine.tell(0, 10, "sleep", sleep_level=1)
    assert engine.tell(1, 20, "heartbeat").sleep_level == 1
    engine.tell(1, 30, "heartbeat")
    assert engine.tell(0, 40, "wake_up", sleep_level=0).sleep_level == 0


def test_engine_starts_and_stops_once() -> None:
    """Ends before the start of the observer process are those of all front ends."""
    engine = merged(ended=(4, 3), since=100)

    assert engine.loggers.started_with == [7]
    late = StepOutput(FACTS.engine_index, 100, "state", SchedulerStats())
    engine.made.on_notice(1, Observed(late, IterationStats(), {}))
    assert not engine.loggers.states
    for index in (0, 1):
        assert engine.loggers.stops == 0
        engine.made.on_notice(index, Stopped(FACTS.engine_index, "closed"))
    assert engine.loggers.stops == 1
