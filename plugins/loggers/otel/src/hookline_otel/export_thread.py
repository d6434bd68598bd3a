"""A daemon thread that sends now and then, and that nobody waits for long."""

import threading
from collections.abc import Callable

from hookline_registry import isolate

INTERRUPT_SECONDS = 0.1
"""How long an interrupted sending gets to return."""


class ExportThread:
    """Calls `work`, sleeps as long as it says, and so on; once more at the end."""

    def __init__(
        self, name: str, work: Callable[[], float], interrupt: Callable[[], None]
    ) -> None:
        """Starts nothing yet.

        Args:
            name: Of the thread.
            work: Sends what there is; says after how many seconds to come again.
            interrupt: Makes a sending under way give up; called once, when the thread
                is to end, from another thread; must return at once.
        """
        self._work = work
        self._interrupt = interrupt
        self._awake = threading.Event()
        self._is_ending = False
        self._is_interrupted = False
        self._thread = threading.Thread(
            target=self._run, name=f"hookline-otel-{name}", daemon=True
        )

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """May be called again."""
        if self._thread.ident is None:
            self._thread.start()

    def wake(self) -> None:
        """Lets it work now rather than later."""
        self._awake.set()

    def end(self) -> None:
        """Asks it to work a last time; waits for nothing."""
        self._is_ending = True
        self._awake.set()

    def wait(self, timeout_seconds: float) -> None:
        """Waits for the last work."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def interrupt(self) -> None:
        """Makes it give up whatever it still does; may be called again."""
        if self._is_interrupted:
            return
        self._is_interrupted = True
        is_busy = self.is_running
        isolate(self._interrupt)
        if is_busy:
            self._thread.join(INTERRUPT_SECONDS)

    def _run(self) -> None:
        while True:
            is_last = self._is_ending  # before working: what came till then is sent
            delay = self._work()
            if is_last:
                return
            self._awake.wait(delay)
            self._awake.clear()
