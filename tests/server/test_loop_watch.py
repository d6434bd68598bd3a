"""A stalled event loop is measured and its stack is logged, from another thread."""

import asyncio
import time

import pytest

from hookline_server.loop_watch import LoopWatch


async def turn() -> None:
    """Lets callbacks from other threads run."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_loop_that_turns_is_not_stalled() -> None:
    """Each callback is measured, however long ago the last look was."""
    watch = LoopWatch(asyncio.get_running_loop())

    for _ in range(5):
        watch.look(10.0)
        await turn()

    assert watch.stats.stalls == 0
    assert watch.stats.lag_seconds < 10


async def test_a_stalled_loop_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log shows where its thread is; the stall is counted."""
    watch = LoopWatch(asyncio.get_running_loop())
    watch.look(0.25)

    for _ in range(20):  # this function is what keeps the loop from turning
        watch.look(0.25)

    assert watch.stats.stalls == 1
    [record] = caplog.records
    assert "the event loop has not turned" in record.getMessage()
    assert "test_a_stalled_loop_is_reported_once" in record.getMessage()


async def test_stalls_are_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """All are counted, but the second in a row is not logged."""
    watch = LoopWatch(asyncio.get_running_loop())

    for _ in range(3):
        for _ in range(10):
            watch.look(0.5)
        await turn()
        watch.look(0.5)
        await turn()

    assert watch.stats.stalls == 3
    assert len(caplog.records) == 1


async def test_a_stall_of_the_whole_process_is_counted() -> None:
    """The watching thread was held up, too, so only the callback's lag shows it."""
    watch = LoopWatch(asyncio.get_running_loop())

    watch._answer(time.monotonic() - 3)

    assert watch.stats.stalls == 1
    assert watch.stats.lag_seconds >= 3
