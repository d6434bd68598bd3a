"""Keeps what extensions tell of a request's adapter until the request ends."""

from dataclasses import dataclass, field

from hookline.sections import Sections
from hookline_metrics.adapters import ADAPTER_NEWS, AdapterWait

MOST_KEPT = 4096
"""Number of requests of which something is kept; of more, the oldest are forgotten."""


@dataclass(slots=True)
class AdapterTrail:
    """What is known of a request and its adapter.

    Attributes:
        digest: The adapter's digest; empty if the request has not run.
        waits: Its waits for the adapter.
    """

    digest: str = ""
    waits: list[AdapterWait] = field(default_factory=list)

    @property
    def waited_seconds(self) -> float | None:
        """How long it has waited for its adapter; None if it has not."""
        return sum(each.seconds for each in self.waits) if self.waits else None


NO_TRAIL = AdapterTrail()


class AdapterTrails:
    """The trails of live requests: their waits end long before themselves."""

    def __init__(self) -> None:
        self._trails: dict[tuple[int, int], AdapterTrail] = {}

    def note(self, engine_index: int, sections: Sections) -> None:
        """Keeps what the news of an engine's output tell."""
        if not sections or (news := ADAPTER_NEWS.read(sections)) is None:
            return
        for wait in news.waits:
            self._of(engine_index, wait.request_id).waits.append(wait)
        for usage in news.usages:
            self._of(engine_index, usage.request_id).digest = usage.digest
        while len(self._trails) > MOST_KEPT:
            del self._trails[next(iter(self._trails))]

    def pop(self, engine_index: int, request_id: int) -> AdapterTrail:
        """Returns the trail of a request that has ended, and forgets it."""
        return self._trails.pop((engine_index, request_id), NO_TRAIL)

    def _of(self, engine_index: int, request_id: int) -> AdapterTrail:
        return self._trails.setdefault((engine_index, request_id), AdapterTrail())
