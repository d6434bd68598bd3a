"""Failures of a plugin are all counted, and logged now and then."""

import logging
import math

import pytest

from hookline_registry import Failure, FailureLog, PluginGuard, isolate
from hookline_registry.failure_log import LOG_SECONDS


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_every_failure_is_counted(clock: Clock) -> None:
    """
    Counts are by kind, and start again when they are taken; the total goes on.
    """
    log = FailureLog("proposer x", clock=clock)

    log.note(("slow",), "late")
    log.note(("slow",), "late", count=2)
    log.note(("load", "gone"), "transfer 3")

    assert log.drain() == {("slow",): 3, ("load", "gone"): 1}
    assert log.drain() == {}
    assert (log.count, log.last) == (4, "load: gone: transfer 3")


def test_one_kind_is_logged_once_in_a_while(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Within the interval only the first failure of a kind is logged, others are as well.
    """
    log = FailureLog("proposer x", clock=clock)

    for clock.now in (0, 1, LOG_SECONDS - 1, LOG_SECONDS):
        log.note(("slow",), f"at {clock.now:g}")
    log.log(("hung",), "elsewhere counted")

    texts = [message.split(";")[0] for message in caplog.messages]
    assert texts == [
        "proposer x: slow: at 0",
        "proposer x: slow: at 60",
        "proposer x: hung: elsewhere counted",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert log.count == 4


def test_errors_of_different_places_are_logged_each(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Exceptions are distinguished by where they were raised, not by their texts.
    """
    log = FailureLog("plugin x", log_seconds=math.inf, clock=clock)

    def here(text: str) -> None:
        raise ValueError(text)

    def there(text: str) -> None:
        raise ValueError(text)

    for call, text in ((here, "a"), (here, "b"), (there, "c")):
        failure = isolate(call, text)
        assert isinstance(failure, Failure)
        clock.now += 1e9
        log.note(("step",), text, error=failure.error)

    assert [message.split(";")[0][-1] for message in caplog.messages] == ["a", "c"]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert all(record.exc_info is not None for record in caplog.records)


def test_remembered_kinds_are_bounded(clock: Clock) -> None:
    """
    A plugin that makes up kinds makes the log no larger and no slower.
    """
    log = FailureLog("plugin x", clock=clock)

    for number in range(5000):
        log.log((str(number),), "")

    assert len(log._logged_at) <= 1000


def test_guard_counts_and_opens_its_breaker(clock: Clock) -> None:
    """
    Calls that raise are counted under their kind; several in a row open the breaker.
    """
    guard = PluginGuard("plugin x", failures=2, cool_down_seconds=5, clock=clock)

    assert guard.call(("good",), len, "abc") == 3
    assert isinstance(guard.call(("bad",), len, 3), Failure)
    assert guard.breaker.allows()
    guard.fail(("malformed",), "no answer")

    assert not guard.breaker.allows()
    assert guard.failures.drain() == {("bad",): 1, ("malformed",): 1}
    clock.now = 5
    assert guard.breaker.allows()
