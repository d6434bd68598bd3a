"""Decides whether a plugin that keeps failing is still called."""

from collections.abc import Callable, Sequence
from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Opens after several consecutive errors, and allows a trial after a while.

    For one thread: before each batch check `allows`, afterwards `record` its outcome.
    Other threads may read `state`.

    Attributes:
        state: `closed` (called), `open` (not called) or `half_open` (one batch on
            trial).
    """

    def __init__(
        self, *, failures: int, cool_down_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._failures = failures
        self._cool_down_seconds = cool_down_seconds
        self._clock = clock
        self._consecutive = 0
        self._opened_at = 0.0
        self.state: BreakerState = "closed"

    def allows(self) -> bool:
        """Returns whether the next batch may be delivered; may go half-open."""
        if self.state == "open" and self._has_cooled_down():
            self.state = "half_open"
        return self.state != "open"

    def record(self, successes: Sequence[bool]) -> None:
        """Records the outcomes of a batch's calls, in order."""
        if self.state == "half_open":
            self._settle_trial(all(successes))
            return
        for success in successes:
            self._consecutive = 0 if success else self._consecutive + 1
            if self._consecutive >= self._failures:
                self._open()
                return

    def _settle_trial(self, success: bool) -> None:
        if success:
            self._consecutive = 0
            self.state = "closed"
        else:
            self._open()

    def _open(self) -> None:
        self._opened_at = self._clock()
        self.state = "open"

    def _has_cooled_down(self) -> bool:
        return self._clock() - self._opened_at >= self._cool_down_seconds
