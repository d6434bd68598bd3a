"""A daemon thread that exports periodically and ends within bounded time."""

import threading
from collections.abc import Callable

from hookline_registry import isolate

THREAD_NAME = "hookline-otel-"
"""Beginning of the names of all export threads."""

INTERRUPT_SECONDS = 0.1
"""Time that an interrupted export gets to return."""


class ExportThread:
    """Calls `work` periodically, at the intervals that it returns, and at the end."""

    def __init__(
        self, name: str, work: Callable[[], float], interrupt: Callable[[], None]
    ) -> None:
        """Creates the thread without starting it.

        Args:
            name: Suffix of the thread's name.
            work: Exports pending data; returns the seconds until the next call.
            interrupt: Makes an export in progress give up. Called once, from another
                thread, when the thread must end; must not block.
        """
        self._work = work
        self._interrupt = interrupt
        self._awake = threading.Event()
        self._is_ending = False
        self._is_interrupted = False
        self._thread = threading.Thread(
            target=self._run, name=f"{THREAD_NAME}{name}", daemon=True
        )

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Starts the thread; further calls have no effect."""
        if self._thread.ident is None:
            self._thread.start()

    def wake(self) -> None:
        """Makes the thread work now rather than at its next interval."""
        self._awake.set()

    def request_stop(self) -> None:
        """Makes the thread work a last time and end; does not block."""
        self._is_ending = True
        self._awake.set()

    def wait(self, timeout_seconds: float) -> None:
        """Waits until the thread has ended, or `timeout_seconds` have passed."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def interrupt(self) -> None:
        """Interrupts an export in progress; further calls have no effect."""
        if self._is_interrupted:
            return
        self._is_interrupted = True
        is_busy = self.is_running
        isolate(self._interrupt)
        if is_busy:
            self._thread.join(INTERRUPT_SECONDS)

    def _run(self) -> None:
        while True:
            is_last = (
                self._is_ending
            )  # read first, so data added before the request is sent
            delay = self._work()
            if is_last:
                return
            self._awake.wait(delay)
            self._awake.clear()
