"""A finished request is sent once, by itself, and its group by its place."""

from dataclasses import replace

import msgspec

from hookline.events import StepOutput
from hookline.frozen import plain
from hookline.stats.finished_request import FinishedGroup
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_observer.messages import Observed
from hookline_testing.payloads import FINISHED

OUTPUT = StepOutput(0, 1, "step", SchedulerStats())
ONE, TWO, EARLIER = (replace(FINISHED, request_id=at) for at in (1, 2, 3))


def sent(iteration: IterationStats) -> Observed:
    """The message as it arrives."""
    message = Observed.made_of(OUTPUT, iteration, {})
    encoded = msgspec.msgpack.encode(message, enc_hook=plain)
    return msgspec.msgpack.decode(encoded, type=Observed)


def test_groups_are_sent_by_places() -> None:
    """
    Groups whose requests all end in a step arrive whole, and were not sent twice.
    """
    groups = (FinishedGroup(requests=(TWO,)), FinishedGroup(requests=(ONE,)))
    iteration = IterationStats(finished=(ONE, TWO), finished_groups=groups)

    arrived = sent(iteration)

    assert arrived.iteration.finished_groups == ()
    assert arrived.whole_iteration == iteration


def test_a_group_with_an_earlier_end_is_sent_whole() -> None:
    """
    A group one of whose completions had ended before arrives as it is, too.
    """
    group = FinishedGroup(requests=(EARLIER, ONE))
    iteration = IterationStats(finished=(ONE,), finished_groups=(group,))

    assert sent(iteration).whole_iteration == iteration


def test_steps_without_ends_have_no_groups() -> None:
    """
    Nothing is added where nothing ended.
    """
    iteration = IterationStats(generation_tokens=4)

    assert sent(iteration).whole_iteration == iteration
