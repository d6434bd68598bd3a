"""The hit rate of the prefix cache over recent requests."""

from collections import deque
from dataclasses import dataclass, field

from hookline.stats.scheduler_stats import PrefixCacheCounts


@dataclass(slots=True)
class HitRateWindow:
    """Prefix cache hit rate over the most recent requests.

    Attributes:
        max_requests: Size of the window; the oldest entries beyond it are dropped.
    """

    max_requests: int = 1000
    _last: PrefixCacheCounts = field(default_factory=PrefixCacheCounts)
    _entries: deque[PrefixCacheCounts] = field(default_factory=deque)
    _requests: int = 0
    _queried: int = 0
    _hits: int = 0

    def observe(self, totals: PrefixCacheCounts) -> None:
        """Adds the growth of running totals; totals that shrank were reset to 0."""
        if totals.requests < self._last.requests:
            self._last = PrefixCacheCounts()
        new = PrefixCacheCounts(
            totals.requests - self._last.requests,
            totals.queried_tokens - self._last.queried_tokens,
            totals.hit_tokens - self._last.hit_tokens,
        )
        self._last = totals
        if new.requests:
            self._entries.append(new)
            self._add(new, sign=1)
        while self._requests > self.max_requests and len(self._entries) > 1:
            self._add(self._entries.popleft(), sign=-1)

    def _add(self, entry: PrefixCacheCounts, *, sign: int) -> None:
        self._requests += sign * entry.requests
        self._queried += sign * entry.queried_tokens
        self._hits += sign * entry.hit_tokens

    @property
    def rate(self) -> float | None:
        """Share of queried tokens that were found; None before the first query."""
        return self._hits / self._queried if self._queried else None
