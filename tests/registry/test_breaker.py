"""When a failing plugin is no longer called."""

import pytest

from hookline_registry import Breaker


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> Breaker:
    return Breaker(failures=3, cool_down_seconds=30.0, clock=clock)


def test_consecutive_errors_open_it(breaker: Breaker) -> None:
    """The breaker opens at the last of the consecutive errors, across batches too."""
    states = []
    for successes in ([False, False], [False], [True]):
        states.append((breaker.allows(), breaker.state))
        breaker.record(successes)

    assert states == [(True, "closed"), (True, "closed"), (False, "open")]


def test_a_success_between_errors_keeps_it_closed(breaker: Breaker) -> None:
    """Errors that are not consecutive do not add up."""
    for _ in range(10):
        breaker.record([False, False, True])

    assert breaker.allows()
    assert breaker.state == "closed"


def test_it_stays_open_until_it_has_cooled_down(
    breaker: Breaker, clock: ManualClock
) -> None:
    """It lets no call through before the cool-down is over."""
    breaker.record([False] * 3)

    clock.now += 29.9

    assert not breaker.allows()
    assert breaker.state == "open"


@pytest.mark.parametrize(
    ("trial", "state"),
    [([True, True], "closed"), ([True, False], "open"), ([False, True], "open")],
)
def test_one_batch_on_trial_decides(
    breaker: Breaker, clock: ManualClock, trial: list[bool], state: str
) -> None:
    """Only a batch without any error closes the breaker again."""
    breaker.record([False] * 3)
    clock.now += 30.0
    allowed = breaker.allows()
    on_trial = breaker.state

    breaker.record(trial)

    assert allowed
    assert on_trial == "half_open"
    assert breaker.state == state


def test_a_failed_trial_restarts_the_cool_down(
    breaker: Breaker, clock: ManualClock
) -> None:
    """After a failed trial the whole cool-down passes again."""
    breaker.record([False] * 3)
    clock.now += 30.0
    breaker.allows()
    breaker.record([False])

    clock.now += 29.9

    assert not breaker.allows()


def test_after_a_good_trial_errors_count_from_zero(
    breaker: Breaker, clock: ManualClock
) -> None:
    """A breaker that closed again gives the plugin its full allowance."""
    breaker.record([False] * 3)
    clock.now += 30.0
    breaker.allows()
    breaker.record([True])

    breaker.record([False, False])

    assert breaker.state == "closed"
