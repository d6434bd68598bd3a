"""Loggers of several front ends hear of each event once."""

import pytest

from hookline.config import EngineConfig, ObserverConfig
from hookline.events import CacheChanges, ClockPair, NewTokens, StepEvents, StepOutput
from hookline.frontend.observation import Observers
from hookline.frontend.observing import REQUESTS
from hookline.payloads import EngineFailed
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_cluster.clients.observation import SecondaryClientObservers
from hookline_testing.payloads import FACTS


class Heard(Observers):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(EngineConfig(observers=ObserverConfig(stat_loggers=())))
        self.outputs: list[tuple[object, ...]] = []
        self.lives: list[str] = []

    def observe(self, *told: object) -> None:
        self.outputs.append(told[:2])

    def started(self, *_: object, **__: object) -> None:
        self.lives.append("started")

    def stopped(self, *_: object) -> None:
        self.lives.append("stopped")

    def failed(self, *_: object, **__: object) -> None:
        self.lives.append("failed")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_the_engines_lives_are_the_owners_to_tell(heard: Heard) -> None:
    """But of a failure each tells what it had there; one sum is made of it."""
    secondary = SecondaryClientObservers(heard)

    secondary.started(FACTS, ClockPair(0, 0))
    secondary.failed(EngineFailed(engine_index=0, reason="it broke", open_requests=3))
    secondary.stopped(0, "closed")

    assert heard.lives == ["failed"]
    assert heard.outputs == []


def test_only_its_own_requests_are_told(heard: Heard) -> None:
    """Not a step without them; and of one with them neither cause nor cache."""
    secondary = SecondaryClientObservers(heard)
    stats = SchedulerStats(running=2)
    changes = CacheChanges(1, ())
    tokens = [NewTokens(7, 5, [1, 2])]
    iteration = IterationStats(generation_tokens=2)

    secondary.observe(
        StepOutput(0, 4, "step", stats, events=StepEvents(cache_changes=changes)),
        IterationStats(),
        {},
    )
    secondary.observe(
        StepOutput(
            0,
            5,
            "step",
            stats,
            events=StepEvents(new_tokens=tokens, cache_changes=changes),
        ),
        iteration,
        {},
    )

    [(output, told)] = heard.outputs
    assert output == StepOutput(
        0, 5, REQUESTS, stats, events=StepEvents(new_tokens=tokens)
    )
    assert told == iteration


def test_requests_that_begin_again_are_not_received_twice(heard: Heard) -> None:
    """The engine does not count them again; the secondary client says how many."""
    SecondaryClientObservers(heard).started(FACTS, ClockPair(0, 0), resubmitted=4)

    [(output, told)] = heard.outputs
    assert isinstance(output, StepOutput)
    assert output.cause == REQUESTS
    assert told == IterationStats(resubmitted=4)
