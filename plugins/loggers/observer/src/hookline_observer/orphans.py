"""Finds requests whose engine and front end have ended together.

The engine's totals have them, and no front end is left that tells of their ends.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hookline_observer.messages import Failed

MOST_REPORTS = 10
"""Reports, one a second, for which a failure waits for front ends that say nothing."""
_MOST_FAILURES = 8
"""Failures of one engine that wait at once."""


@dataclass(slots=True)
class _Failure:
    """What is known of one failure of an engine.

    Attributes:
        awaited: Front ends that have told nothing of it, and live.
        told: Front ends that have told of it.
        received: Requests that these had in flight there, of those in its totals.
        open_requests: Requests in its totals that it has not ended; None before its
            owner has told of it.
        num_reports: For how many reports it has waited.
    """

    awaited: set[int]
    told: set[int] = field(default_factory=set)
    received: int = 0
    open_requests: int | None = None
    num_reports: int = 0


class Orphans:
    """Compares what an engine had with what the front ends had there."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        """Tells an engine's index and a number of requests, once for each failure."""
        self._tell = tell
        self._failures: dict[int, list[_Failure]] = {}

    def add(
        self,
        front_end: int,
        failed: Failed,
        open_requests: int | None,
        heard: Collection[int],
    ) -> None:
        """Takes what a front end tells of a failure.

        Args:
            front_end: Its index.
            failed: What it tells.
            open_requests: What the engine had received and not ended, if this front end
                owns it; else None.
            heard: The front ends that are heard.
        """
        if failed.received is None:
            return
        waiting = self._failures.setdefault(failed.engine_index, [])
        found = next((each for each in waiting if front_end not in each.told), None)
        if found is None:
            found = _Failure({*heard})
            waiting.append(found)
            del waiting[:-_MOST_FAILURES]
        found.awaited.discard(front_end)
        found.told.add(front_end)
        found.received += failed.received
        if open_requests is not None:
            found.open_requests = open_requests
        self._settle()

    def leave(self, front_end: int) -> None:
        """Waits no longer for a front end, which has ended."""
        for waiting in self._failures.values():
            for each in waiting:
                each.awaited.discard(front_end)
        self._settle()

    def report(self) -> None:
        """Forgets failures that have waited for too long; call it once a second."""
        for index, waiting in list(self._failures.items()):
            for each in waiting:
                each.num_reports += 1
            kept = [each for each in waiting if each.num_reports <= MOST_REPORTS]
            self._failures[index] = kept
            if not kept:
                del self._failures[index]

    def _settle(self) -> None:
        for index, waiting in self._failures.items():
            for each in list(waiting):
                if each.open_requests is None or each.awaited:
                    continue
                waiting.remove(each)
                if (count := each.open_requests - each.received) > 0:
                    self._tell(index, count)
