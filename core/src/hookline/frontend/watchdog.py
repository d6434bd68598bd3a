"""A thread that looks at engines and event loop, and depends on neither."""

import time
from collections.abc import Callable, Sequence

from hookline_processes.watcher import Watcher

LOOK_SECONDS = 0.25
"""Time between two looks."""
_END_SECONDS = 10.0
"""Time for a look to end; one may wait for a process to write its stacks."""

Look = Callable[[float], None]
"""Called with the seconds since the last look, as far as this process ran."""


class Watchdog:
    """Looks several times per second; call `close` at the end."""

    def __init__(self, looks: Sequence[Look]) -> None:
        """Starts the thread, which calls all of these."""
        self._looks = looks
        self._looked_at = time.monotonic()
        self._watcher = Watcher(self._look_once, name="watchdog", seconds=LOOK_SECONDS)

    def close(self) -> None:
        """Ends the thread."""
        self._watcher.close(_END_SECONDS)

    def _look_once(self) -> bool:
        now = time.monotonic()
        # Time in which this process was stopped is no time without an answer.
        seconds = min(now - self._looked_at, 2 * LOOK_SECONDS)
        self._looked_at = now
        for look in self._looks:
            look(seconds)
        return True
