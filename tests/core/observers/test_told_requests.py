"""Facts about requests are collected only for events that a logger is told of."""

import pytest

from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepEvents,
    StepOutput,
)
from hookline.finish_cause import LengthReached
from hookline.frontend.observing import request_ids_for_hooks
from hookline.stats.scheduler_stats import SchedulerStats

OUTPUT = StepOutput(
    0,
    0,
    "step",
    SchedulerStats(),
    events=StepEvents(
        queued=[Queued(1, 0, 3)],
        scheduled=[Scheduled(2, 0, 0, 0, 0, is_resumed=False)],
        preempted=[Preempted(3, 0, 3, beneficiary_id=30), Preempted(4, 0, 3)],
        new_tokens=[NewTokens(5, 0, [7])],
        finished=[Finished(6, 0, LengthReached(), 1)],
    ),
)


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ((), set()),
        (("step_finished",), set()),
        (("requests_queued",), {1}),
        (("requests_scheduled",), {2}),
        (("requests_preempted",), {3, 30, 4}),
        (("tokens_generated",), {5}),
        (("requests_finished",), {6}),
        (("requests_queued", "requests_finished"), {1, 6}),
    ],
)
def test_facts_are_needed_for_what_is_told(
    hooks: tuple[str, ...], expected: set[int]
) -> None:
    """A logger of preemptions alone costs nothing in steps that only make tokens."""
    assert request_ids_for_hooks(OUTPUT, hooks.__contains__) == expected
