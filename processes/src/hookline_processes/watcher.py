"""A thread that looks after something again and again, whatever goes wrong."""

import logging
import threading
from collections.abc import Callable

from hookline_registry import Failure, FailureLog, isolate

_log = logging.getLogger(__name__)


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
