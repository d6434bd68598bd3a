"""Finds the logger that ends the observer process, by what ran when it ended."""

import time
from collections.abc import Callable, Collection, Sequence

ENDS = 2
"""Ends in a row, each amid calls of a logger, for which it is left out."""
KILLED_ENDS = 3
"""The same of ends from outside, as one looks for which memory has run out."""
RECENT_SECONDS = 3600.0
"""Time after which an end says nothing about the next one."""
QUIET_SECONDS = 30.0
_QUIET_FACTOR = 3.0
"""Without an end for so long, and so many times as long as between ends before, those
that run are innocent."""


class Culprits:
    """Suspects loggers, and leaves out the one that is found; for one thread.

    Two ways lead to it. Most loggers end their process amid a call: those that were
    being called each time are suspects, and take turns from then on, so that the next
    end leaves one of them. One may also do it by a thread of its own, between calls:
    then a half of the loggers is set aside, of which the other half is suspected if the
    process ends again, and that half if it does not.

    Attributes:
        left_out: Loggers that were found, in that order.
        set_aside: Loggers that do not run for a while, to see whether it is one of
            them.
        suspects: Loggers amid whose calls the process has ended.
    """

    def __init__(
        self,
        loggers: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Suspects none of the loggers yet."""
        self._loggers = tuple(loggers)
        self._clock = clock
        self.left_out: tuple[str, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self.set_aside: tuple[str, ...] = ()
        self.suspects: frozenset[str] = frozenset()
        self._among: tuple[str, ...] = ()
        self._num_amid = self._num_between = 0
        self._ended_at: float | None = None
        self._interval = 0.0

    @property
    def running(self) -> tuple[str, ...]:
        """The loggers that run."""
        out = {*self.left_out, *self.set_aside}
        return tuple(each for each in self._loggers if each not in out)

    def ended(self, called: Collection[str], *, by_itself: bool) -> str | None:
        """Takes note that the process has ended.

        Args:
            called: The loggers that it was calling.
            by_itself: Whether it was not killed from outside.

        Returns:
            The logger that is left out from now on, if it is found.
        """
        now = self._clock()
        if self._ended_at is not None:
            if now - self._ended_at > RECENT_SECONDS:
                self._forget()
            else:
                self._interval = max(self._interval, now - self._ended_at)
        self._ended_at = now
        if called:
            return self._ended_amid(frozenset(called), by_itself=by_itself)
        return self._ended_between() if by_itself else None

    def look(self) -> bool:
        """Whether other loggers are to run now, since those that do are innocent."""
        if not self.set_aside or self._ended_at is None:
            return False
        patience = max(QUIET_SECONDS, _QUIET_FACTOR * self._interval)
        if self._clock() - self._ended_at < patience:
            return False
        self._ended_at = self._clock()
        self._among = self.set_aside
        self._divide()
        return True

    def _ended_amid(self, called: frozenset[str], *, by_itself: bool) -> str | None:
        still = self.suspects & called
        self._num_amid = self._num_amid + 1 if still else 1
        self.suspects = still or called
        enough = ENDS if by_itself else KILLED_ENDS
        if self._num_amid < enough:
            return None
        is_last_turn = self._num_amid == enough and len(self.suspects) > 1
        if is_last_turn:  # the next end leaves one, unless another one hangs
            return None
        self._among = tuple(each for each in self._loggers if each in self.suspects)
        return self._divide()

    def _ended_between(self) -> str | None:
        self._num_between += 1
        running = self.running
        self._among = tuple(each for each in self._among if each in running) or running
        if self._num_between < ENDS or not self._among:
            return None
        return self._divide()

    def _divide(self) -> str | None:
        """Sets a half of those aside among whom it is; leaves out the last one."""
        if len(self._among) == 1:
            return self._leave_out(self._among[0])
        self.set_aside = self._among[: len(self._among) // 2]
        return None

    def _leave_out(self, logger: str) -> str:
        self._forget()
        self.left_out += (logger,)
        return logger
