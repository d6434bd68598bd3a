"""A thread that looks after something again and again, whatever goes wrong."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hookline_registry import Failure, FailureLog, isolate

_log = logging.getLogger(__name__)

Look = Callable[[float], None]
"""Called with the seconds since the last call, as far as this process ran."""


class Watcher:
    """Calls a function at intervals, in a thread of its own, until it is closed.

    An error of the function does not end the thread: it is logged, at most once a
    minute, and the function is called again.
    """

    def __init__(
        self,
        look: Callable[[], bool],
        *,
        name: str,
        seconds: float,
        closing: threading.Event | None = None,
    ) -> None:
        """Starts the thread.

        Args:
            look: Called again and again; returns False if there is nothing left to do.
            name: Name of the thread, which stands in log lines.
            seconds: Time between two calls.
            closing: Set by `close`, so that a call that waits can end early.
        """
        self._look = look
        self._name = name
        self._seconds = seconds
        self._closing = threading.Event() if closing is None else closing
        self._failures = FailureLog(name)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_seconds: float) -> bool:
        """Ends the thread; may be called twice.

        Returns:
            False if a call goes on after `timeout_seconds`; it is left alone.
        """
        self._closing.set()
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            _log.error("%s has not ended in %g s", self._name, timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            goes_on = isolate(self._look)
            if isinstance(goes_on, Failure):
                self._failures.note(("look",), goes_on.summary, error=goes_on.error)
            elif not goes_on:
                return


class Watchdog:
    """Looks several times per second, and says how long ago it looked last.

    Time in which this process was stopped does not count: it is no time without an
    answer of others. Call `close` at the end.
    """

    LOOK_SECONDS = 0.25
    END_SECONDS = 10.0
    """Time for a look to end; one may wait for a process to write its stacks."""

    def __init__(self, looks: Sequence[Look]) -> None:
        """Starts the thread, which calls all of these."""
        self._looks = looks
        self._looked_at = time.monotonic()
        self._watcher = Watcher(
            self._look_once, name="watchdog", seconds=self.LOOK_SECONDS
        )

    def close(self) -> None:
        """Ends the thread."""
        self._watcher.close(self.END_SECONDS)

    def _look_once(self) -> bool:
        now = time.monotonic()
        seconds = min(now - self._looked_at, 2 * self.LOOK_SECONDS)
        self._looked_at = now
        for look in self._looks:
            look(seconds)
        return True
