"""The own time of something is without what the machine itself stalled."""

import os
import signal
import subprocess
import sys
import time

import pytest

from hookline_testing.own_time import Deadline, Stopwatch, _canary
from hookline_testing.processor_wait import thread_wait_seconds
from hookline_testing.waiting import wait_until


def test_what_sleeps_or_computes_takes_its_own_time() -> None:
    """Stalls of other processes do not shorten it by much more than they last."""
    stopwatch = Stopwatch()
    time.sleep(0.3)
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    took = stopwatch.took()

    assert took.seconds >= 0.5
    assert 0 <= took.own_seconds <= took.seconds
    assert took.own_seconds > 0.1


def test_a_stall_of_the_machine_is_taken_off() -> None:
    """While everything stands still, also the process that only sleeps."""
    canary = _canary()._process.pid
    stopwatch = Stopwatch()
    os.kill(canary, signal.SIGSTOP)
    time.sleep(1.0)
    during = stopwatch.took()
    os.kill(canary, signal.SIGCONT)
    time.sleep(0.1)
    after = stopwatch.took()

    assert during.own_seconds < during.seconds - 0.9
    assert after.own_seconds < after.seconds - 0.9


def test_a_deadline_is_put_off_by_a_stall() -> None:
    """And passes when the machine goes on."""
    canary = _canary()._process.pid
    os.kill(canary, signal.SIGSTOP)
    deadline = Deadline(0.3)
    time.sleep(0.5)
    during = deadline.is_ahead
    os.kill(canary, signal.SIGCONT)

    assert during
    wait_until(lambda: not deadline.is_ahead, "the deadline does not pass")


def test_waits_for_a_processor_are_taken_off() -> None:
    """Of this process, which shares one processor with others that are busy."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    busy = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in "123"]
    try:
        time.sleep(0.3)
        stopwatch = Stopwatch()
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        took = stopwatch.took()
    finally:
        os.sched_setaffinity(0, before)
        for each in busy:
            each.kill()
            each.wait()

    assert took.own_seconds < took.seconds - 0.1


def test_a_process_that_has_ended_waits_for_nothing() -> None:
    """Nothing is known of it, and nothing fails."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        stopwatch = Stopwatch(process.pid)

    assert thread_wait_seconds(process.pid) == {}
    assert stopwatch.own_seconds >= 0


def test_nothing_is_measured_without_its_canary() -> None:
    """A bound that no longer holds anything fails instead."""
    script = """
from hookline_testing import own_time
stopwatch = own_time.Stopwatch()
own_time._canary()._end()
print(stopwatch.own_seconds)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "nothing measures the machine's stalls" in done.stderr


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_deadline_passes(seconds: float) -> None:
    """It is ahead for as long as was given, and then no longer."""
    deadline = Deadline(seconds)

    wait_until(lambda: not deadline.is_ahead, "the deadline does not pass")

    assert deadline._stopwatch.seconds >= seconds
