"""The budget of restarts of an engine."""

from hookline.clock import VirtualClock
from hookline_processes.restarts import (
    FIRST_DELAY_SECONDS,
    LONGEST_DELAY_SECONDS,
    PERIOD_SECONDS,
    RestartBudget,
)


def test_pauses_grow_up_to_a_limit() -> None:
    """Each is twice the one before it."""
    budget = RestartBudget(10, VirtualClock().now)

    delays = [budget.consume() for _ in range(10)]

    assert delays[:3] == [FIRST_DELAY_SECONDS * factor for factor in (1, 2, 4)]
    assert delays[-1] == LONGEST_DELAY_SECONDS


def test_restarts_are_given_back_after_the_period() -> None:
    """No more than the limit in any hour; 0 allows none."""
    clock = VirtualClock()
    budget = RestartBudget(2, clock.now)

    first = [budget.consume() for _ in range(3)]
    clock.sleep(PERIOD_SECONDS + 1)
    second = [budget.consume() for _ in range(3)]

    assert first == second == [FIRST_DELAY_SECONDS, 2 * FIRST_DELAY_SECONDS, None]
    assert RestartBudget(0, clock.now).consume() is None
