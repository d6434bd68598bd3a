"""Notices of several front ends come to the loggers in an order that adds up."""

from typing import Any

from hookline.events import ClockPair, StepOutput
from hookline.frontend.observing import REQUESTS
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_observer.merging import MergedNotices
from hookline_observer.messages import Failed, Observed, Started
from hookline_testing.payloads import FACTS

OWNER, SECONDARY = 0, 1
BEGAN = Started(FACTS, ClockPair(wall=0, monotonic=0))
ENDED = Failed(FACTS.engine_index, "killed", 4, is_final=False)


def told_by_secondary(iteration: IterationStats) -> Observed:
    output = StepOutput(FACTS.engine_index, 0, REQUESTS, SchedulerStats())
    return Observed(output, iteration, {})


AGAIN = told_by_secondary(IterationStats(resubmitted=4))
UNHEARD = told_by_secondary(IterationStats(received_correction=2))


class Loggers:
    """Notes what loggers are told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def started(self, *_: object, **__: object) -> None:
        self.told.append("started")

    def failed(self, *_: object, **__: object) -> None:
        self.told.append("failed")

    def observe(self, _: StepOutput, iteration: IterationStats, __: object) -> None:
        self.told.append(iteration.received_correction - iteration.resubmitted)


def told(*notices: tuple[int, Any]) -> list[Any]:
    loggers: Any = Loggers()
    merged = MergedNotices(loggers, page_stats=lambda: (), restarts=0)
    for index, notice in notices:
        merged.on_notice(index, notice)
    return loggers.told  # type: ignore[no-any-return]


def test_a_guest_that_is_ahead_of_the_owner_waits() -> None:
    """What a new process gets again belongs behind its start."""
    began, ended, again = (OWNER, BEGAN), (OWNER, ENDED), (SECONDARY, AGAIN)

    assert told(again, began) == ["started", -4]
    assert told(began, ended, again, began) == ["started", "failed", "started", -4]
    assert told(began, ended, began, again) == ["started", "failed", "started", -4]


def test_a_guest_that_is_behind_the_owner_does_not_wait() -> None:
    """What a dead process had not heard of counts, whether it is replaced or not."""
    began, ended, unheard = (OWNER, BEGAN), (OWNER, ENDED), (SECONDARY, UNHEARD)

    assert told(began, ended, unheard) == ["started", "failed", 2]
    assert told(began, unheard, ended) == ["started", 2, "failed"]
