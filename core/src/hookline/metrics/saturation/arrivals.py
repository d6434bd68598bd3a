"""How fast requests come, and whether those that wait become more."""

import math
from dataclasses import dataclass

from hookline.stats import SchedulerStats

WINDOW_SECONDS = 15.0
"""Time constant: as noisy as a mean over the last 30 s, and as late as one."""
LEAST_SECONDS = 10.0
"""A younger window is taken to be so long, with nothing in its unseen part."""
_DAMPING = 5.0
"""Requests added to both sides of a ratio, so that a few do not make a trend."""


@dataclass(slots=True)
class Arrivals:
    """Decaying sums over the time of the engine's clock, busy or not."""

    _seconds: float = 0.0
    _queued_seconds: float = 0.0
    _received: float = 0.0
    _growth: float = 0.0
    _last_received: int = 0
    _last_waiting: int = 0

    def add(self, scheduler: SchedulerStats, seconds: float) -> None:
        """Counts so much time, and what came in it."""
        kept = math.exp(-seconds / WINDOW_SECONDS)
        # What the time itself weighs by its end: not all of it, if it is long.
        weight = WINDOW_SECONDS * (1 - kept)
        self._seconds = self._seconds * kept + weight
        is_queued = self._last_waiting > 0 and scheduler.waiting > 0
        self._queued_seconds = self._queued_seconds * kept + weight * is_queued
        new = max(0, scheduler.received - self._last_received)
        self._received = self._received * kept + new
        growth = scheduler.waiting - self._last_waiting
        self._growth = self._growth * kept + growth
        self._last_received = scheduler.received
        self._last_waiting = scheduler.waiting

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self._received / max(self._seconds, LEAST_SECONDS)

    @property
    def growth(self) -> float:
        """Arrivals ÷ admissions while requests wait: above 1 if they become more.

        The share of the time in which requests waited scales it, so that short queues
        count for little. No estimate of what work costs has a part in it.
        """
        admitted = max(0.0, self._received - self._growth)
        ratio = (self._received + _DAMPING) / (admitted + _DAMPING)
        return ratio * self._queued_seconds / max(self._seconds, LEAST_SECONDS)
