"""A thread that looks again and again."""

import threading

import pytest

from hookline_processes.watcher import Watcher

WAIT_SECONDS = 60.0


def test_watcher_outlives_errors(caplog: pytest.LogCaptureFixture) -> None:
    """An error is logged once a minute at most, and the function is called again."""
    calls = []
    has_gone_on = threading.Event()

    def look() -> bool:
        calls.append(1)
        if len(calls) < 4:
            raise OSError("too many open files")
        has_gone_on.set()
        return True

    watcher = Watcher(look, name="a watcher", seconds=0.001)

    assert has_gone_on.wait(WAIT_SECONDS)
    assert watcher.close(WAIT_SECONDS)
    assert caplog.text.count("a watcher: look: OSError: too many open files") == 1


def test_watcher_that_hangs_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Closing waits for a call in bounded time, and says that it goes on."""
    has_begun, may_end = threading.Event(), threading.Event()

    def look() -> bool:
        has_begun.set()
        return may_end.wait(WAIT_SECONDS)

    watcher = Watcher(look, name="a watcher", seconds=0.0)
    assert has_begun.wait(WAIT_SECONDS)

    is_ended = watcher.close(0.01)
    may_end.set()

    assert not is_ended
    assert "a watcher has not ended in 0.01 s" in caplog.text
