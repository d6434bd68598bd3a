"""What bounds an engine, by what its steps left waiting and spent their time on."""

import pytest

from hookline.clock import NANOSECONDS
from hookline.stats.iteration_stats import FirstToken
from hookline_metrics.saturation.bound import CLIENT, FRONT_END, BoundTimes
from hookline_metrics.saturation.costs import StepCost, StepCosts

COSTS = StepCosts(cost=StepCost(0.010, 0.001, 0.0001))


@pytest.mark.parametrize(
    ("obstacle", "limit"),
    [
        ("kv_blocks", "kv_space"),
        ("batch_slots", "batch_slots"),
        ("token_budget", "token_budget"),
        ("share", "token_budget"),
    ],
)
def test_what_keeps_requests_waiting_bounds_an_engine(
    obstacle: str, limit: str
) -> None:
    """Whatever the step itself computes."""
    times = BoundTimes(COSTS, None)

    times.add_step(2.0, obstacle, 5, 1000)

    assert times.seconds[limit] == 2.0
    assert times.name == limit


def test_the_device_bounds_steps_that_serve_all() -> None:
    """Prompt tokens are compute; what each step and request reads is bandwidth."""
    times = BoundTimes(COSTS, None)

    times.add_step(0.4, "", 10, 800)

    assert times.seconds["compute"] == pytest.approx(0.4 * 0.08 / 0.1)
    assert times.seconds["memory_bandwidth"] == pytest.approx(0.4 * 0.02 / 0.1)


def test_idle_time_is_the_front_ends_or_the_clients() -> None:
    """As far as the front end had a request; without any time all is the clients'."""
    times = BoundTimes(COSTS, None)
    assert times.shares()[CLIENT] == 1.0

    times.add_idle(3.0, prepared=1.0)

    assert times.shares()[FRONT_END] == pytest.approx(1 / 3)
    assert times.shares()[CLIENT] == pytest.approx(2 / 3)


def test_older_times_are_forgotten() -> None:
    """After some time constants only the newest limit counts."""
    times = BoundTimes(COSTS, 1.0)
    times.add_step(100.0, "kv_blocks", 1, 0)

    for _ in range(100):
        times.add_step(0.1, "batch_slots", 1, 0)

    assert times.shares()["batch_slots"] > 0.99


def test_a_long_rest_counts_as_far_as_it_is_remembered() -> None:
    """After a night without requests, some seconds of work are most of the last."""
    times = BoundTimes(COSTS)
    times.add_idle(30_000.0)

    for _ in range(1500):
        times.add_step(0.01, "kv_blocks", 1, 0)

    assert times.shares()["kv_space"] == pytest.approx(1 - 2.718281828**-1.5, abs=0.02)


@pytest.mark.parametrize(
    ("arrived", "prepared"), [(0.5, 0.5), (9.0, 3.0), (-0.1, 0.0)], ids=str
)
def test_the_first_token_tells_what_the_front_end_did_meanwhile(
    arrived: float, prepared: float
) -> None:
    """From the request's arrival to the end of the idle time, and at most all of it."""
    times = BoundTimes(COSTS, None)
    times.wake(7 * NANOSECONDS, 3.0)
    times.add_step(0.25, "", 0, 100)

    tokens = [FirstToken(seconds=0.25 + arrived), FirstToken(seconds=0.05)]
    times.first_tokens(tokens, 7 * NANOSECONDS + NANOSECONDS // 4)
    times.first_tokens([FirstToken(seconds=100.0)], 9 * NANOSECONDS)

    assert times.seconds[FRONT_END] == pytest.approx(prepared)
    assert times.seconds[CLIENT] == pytest.approx(3.0 - prepared)
