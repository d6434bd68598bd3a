"""What bounds an engine, by what its steps left waiting and spent their time on."""

import pytest

from hookline_metrics.saturation.bound import CLIENT, FRONT_END, BoundTimes
from hookline_metrics.saturation.costs import StepCost

COST = StepCost(0.010, 0.001, 0.0001)


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
    times = BoundTimes(None)

    times.add_step(2.0, obstacle, 5, 1000, COST)

    assert times.seconds[limit] == 2.0
    assert times.name == limit


def test_the_device_bounds_steps_that_serve_all() -> None:
    """Prompt tokens are compute; what each step and request reads is bandwidth."""
    times = BoundTimes(None)

    times.add_step(0.4, "", 10, 800, COST)

    assert times.seconds["compute"] == pytest.approx(0.4 * 0.08 / 0.1)
    assert times.seconds["memory_bandwidth"] == pytest.approx(0.4 * 0.02 / 0.1)


def test_idle_time_is_the_front_ends_or_the_clients() -> None:
    """As far as the front end had a request; without any time all is the clients'."""
    times = BoundTimes(None)
    assert times.shares()[CLIENT] == 1.0

    times.add_idle(3.0, prepared=1.0)

    assert times.shares()[FRONT_END] == pytest.approx(1 / 3)
    assert times.shares()[CLIENT] == pytest.approx(2 / 3)


def test_older_times_are_forgotten() -> None:
    """After some time constants only the newest limit counts."""
    times = BoundTimes(window_seconds=1.0)
    times.add_step(100.0, "kv_blocks", 1, 0, COST)

    for _ in range(100):
        times.add_step(0.1, "batch_slots", 1, 0, COST)

    assert times.shares()["batch_slots"] > 0.99
