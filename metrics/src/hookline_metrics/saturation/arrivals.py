"""Estimates the arrival rate and the growth of the waiting queue."""

import math
from dataclasses import dataclass

from hookline.stats.scheduler_stats import SchedulerStats

WINDOW_SECONDS = 15.0
"""Time constant: as noisy and as delayed as a mean over the last 30 s."""
LEAST_SECONDS = 10.0
"""Minimum window length; a younger window counts as empty before its start."""
_DAMPING = 5.0
"""Requests added to both sides of a ratio, so that a few requests make no trend."""


@dataclass(slots=True)
class Arrivals:
    """Decaying sums over the engine's clock time, busy or idle."""

    _seconds: float = 0.0
    _queued_seconds: float = 0.0
    _received: float = 0.0
    _growth: float = 0.0
    _last_received: int = 0
    _last_waiting: int = 0

    def add(self, scheduler: SchedulerStats, seconds: float) -> None:
        """Adds `seconds` and the arrivals in them."""
        kept = math.exp(-seconds / WINDOW_SECONDS)
        # The elapsed time decays as well: a long interval has less than full weight.
        weight = WINDOW_SECONDS * (1 - kept)
        self._seconds = self._seconds * kept + weight
        is_queued = self._last_waiting > 0 and scheduler.waiting > 0
        self._queued_seconds = self._queued_seconds * kept + weight * is_queued
        received = scheduler.totals.received + scheduler.totals.migrated_in
        new = max(0, received - self._last_received)
        self._received = self._received * kept + new
        growth = scheduler.waiting - self._last_waiting
        self._growth = self._growth * kept + growth
        self._last_received = received
        self._last_waiting = scheduler.waiting

    @property
    def rate(self) -> float:
        """Arrival rate in requests per second."""
        return self._received / max(self._seconds, LEAST_SECONDS)

    @property
    def growth(self) -> float:
        """Arrivals ÷ admissions while requests wait; above 1 if the queue grows.

        Scaled by the fraction of time in which requests waited, so that short queues
        count little. It does not depend on cost estimates.
        """
        admitted = max(0.0, self._received - self._growth)
        ratio = (self._received + _DAMPING) / (admitted + _DAMPING)
        return ratio * self._queued_seconds / max(self._seconds, LEAST_SECONDS)
