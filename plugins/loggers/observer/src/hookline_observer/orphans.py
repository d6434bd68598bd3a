"""Finds requests whose engine and front end have ended together.

The engine's totals include them, but no front end remains to report their ends.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hookline_observer.messages import Failed

MOST_REPORTS = 10
"""A failure waits for this many reports, one a second, for silent front ends."""
_MOST_FAILURES = 8
"""Failures of one engine that wait at once."""


@dataclass(slots=True)
class _Failure:
    """The reports of one failure of an engine.

    Attributes:
        awaited: Living front ends that have not reported it.
        told: Front ends that have reported it.
        received: Number of their requests in flight that the engine's totals include.
        open_requests: Number of requests that the engine had received and not ended;
            None until its owner reports the failure.
        num_reports: Number of periodic reports for which it has waited.
    """

    awaited: set[int]
    told: set[int] = field(default_factory=set)
    received: int = 0
    open_requests: int | None = None
    num_reports: int = 0


class Orphans:
    """Compares an engine's open requests with those that its front ends account for."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        """Calls `tell` with an engine's index and the number of its orphans."""
        self._tell = tell
        self._failures: dict[int, list[_Failure]] = {}

    def add(
        self,
        front_end: int,
        failed: Failed,
        open_requests: int | None,
        heard: Collection[int],
    ) -> None:
        """Records a front end's report of a failure.

        Args:
            front_end: Its index.
            failed: The report.
            open_requests: Number of requests that the engine had received and not
                ended, if this front end owns it; else None.
            heard: Front ends that are connected.
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
        """Stops waiting for a front end that has ended."""
        for waiting in self._failures.values():
            for each in waiting:
                each.awaited.discard(front_end)
        self._settle()

    def report(self) -> None:
        """Forgets failures that have waited too long; call it once a second."""
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
