"""Decides whether a plugin that keeps failing is still called."""

from collections.abc import Callable, Sequence
from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Opens after so many consecutive errors, and tries again after a while.

    Used by one thread, batch by batch: ask `allows`, and if it does, `record` what came
    of the batch. Other threads may read `state`.

    Attributes:
        state: `closed`: called; `open`: not called; `half_open`: one batch on trial.
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
        """Whether the next batch may be delivered; an open breaker may go half-open."""
        if self.state == "open" and self._has_cooled_down():
            self.state = "half_open"
        return self.state != "open"

    def record(self, successes: Sequence[bool]) -> None:
        """Takes in how the calls of one batch went, in their order."""
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
