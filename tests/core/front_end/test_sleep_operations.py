"""Durations of calls that put engines to sleep and wake them up."""

from concurrent.futures import Future
from typing import Any

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.engine.commands import (
    EngineCommand,
    ResetPrefixCache,
    Sleep,
    SleepMode,
    WakeUp,
)
from hookline.exceptions import CommandError
from hookline.front_end_parts import SleepOperation
from hookline.frontend.calls import SleepOperations
from hookline.step import SleepLevel

Replies = list[Future[object]]
SLEEP = Sleep(SleepLevel.KV_CACHE, SleepMode.KEEP)


class Timed:
    """Operations on a virtual clock, and what they have reported."""

    def __init__(self) -> None:
        self.clock = VirtualClock(5 * NANOSECONDS)
        self.told: list[SleepOperation] = []
        self._operations = SleepOperations(self.clock, self.told.extend)

    def begin(self, command: EngineCommand[Any], engines: int = 1) -> Replies:
        replies: Replies = [Future() for _ in range(engines)]
        self._operations.start_call(command, replies)
        return replies


@pytest.fixture
def timed() -> Timed:
    return Timed()


def test_call_lasts_until_the_last_engine_has_replied(timed: Timed) -> None:
    """It is reported when it begins, and once when it ends."""
    first, second = timed.begin(SLEEP, engines=2)
    timed.clock.sleep(1.5)
    second.set_result(None)
    before = list(timed.told)
    timed.clock.sleep(1)
    first.set_result(None)

    begun = SleepOperation(operation="sleep", in_flight=1)
    assert before == [begun]
    ended = SleepOperation(operation="sleep", in_flight=0, seconds=2.5)
    assert timed.told == [begun, ended]


def test_refused_and_abandoned_calls_end_too(timed: Timed) -> None:
    """Nothing stays in flight, whichever way the reply is settled."""
    [refused] = timed.begin(WakeUp())
    [abandoned] = timed.begin(WakeUp())
    timed.clock.sleep(0.5)
    refused.set_exception(CommandError("WakeUp", "no memory"))
    timed.clock.sleep(0.5)
    abandoned.cancel()

    assert [(each.in_flight, each.seconds) for each in timed.told] == [
        *((1, None), (2, None), (1, 0.5), (0, 1.0)),
    ]
    assert {each.operation for each in timed.told} == {"wake_up"}


def test_operations_are_counted_apart(timed: Timed) -> None:
    """A wake-up that cancels a sleep is in flight beside it."""
    timed.begin(SLEEP)
    timed.begin(WakeUp())

    assert [each.in_flight for each in timed.told] == [1, 1]


def test_other_commands_are_no_operations(timed: Timed) -> None:
    """Resets of the prefix cache and the like are not timed."""
    timed.begin(ResetPrefixCache())

    assert timed.told == []


def test_call_to_no_engine_is_no_operation(timed: Timed) -> None:
    """Without a running engine nothing begins that could not end."""
    timed.begin(SLEEP, engines=0)

    assert timed.told == []
