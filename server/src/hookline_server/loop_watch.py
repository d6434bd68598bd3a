"""Measures how late an event loop runs its callbacks, from another thread."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections import deque

from hookline_metrics.front_end_parts import EventLoopStats

STALL_SECONDS = 1.0
"""Lag above which the event loop counts as stalled."""
_LOG_SECONDS = 10.0
"""Minimum time between two reports of a stalled loop in the log."""
_WINDOW = 20
"""Number of recent measurements of which the lag is the maximum."""
_log = logging.getLogger(__name__)


class LoopWatch:
    """Watches the event loop of the thread that makes it.

    `look` belongs to the watching thread, `stats` to any.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._lags: deque[float] = deque(maxlen=_WINDOW)
        self._posted_at: float | None = None
        self._waited = 0.0
        self._stalls = 0
        self._logged_at = -_LOG_SECONDS

    @property
    def stats(self) -> EventLoopStats:
        """The greatest recent lag, and the number of stalls so far."""
        lags = list(self._lags)
        return EventLoopStats(
            lag_seconds=round(max(lags, default=0.0), 3), stalls=self._stalls
        )

    def look(self, seconds: float) -> None:
        """Posts a callback if the last one has run; else judges how late it is.

        Args:
            seconds: Time since the last look, as far as this process ran.
        """
        if self._loop.is_closed():
            return
        if self._posted_at is None:
            self._waited = 0.0
            self._posted_at = time.monotonic()
            self._loop.call_soon_threadsafe(self._answer, self._posted_at)
            return
        was_late = self._waited > STALL_SECONDS
        self._waited += seconds
        if self._waited > STALL_SECONDS and not was_late:
            self._stalls += 1
            self._report()

    def _answer(self, posted_at: float) -> None:
        lag = time.monotonic() - posted_at
        self._lags.append(lag)
        if lag > STALL_SECONDS >= self._waited:
            # The watching thread could not run either, and has not seen the stall.
            self._stalls += 1
            _log.warning("this process was held up for %.1f s", lag)
        self._posted_at = None

    def _report(self) -> None:
        if time.monotonic() < self._logged_at + _LOG_SECONDS:
            return
        self._logged_at = time.monotonic()
        # The only way to look into another thread.
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001
        stack = "".join(traceback.format_stack(frame)) if frame else "it has ended\n"
        _log.error(
            "the event loop has not turned for %.1f s; its thread is at:\n%s",
            self._waited,
            stack,
        )
