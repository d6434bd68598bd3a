"""Makes one failure of an engine out of what each front end tells of it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import msgspec

from hookline_observer.messages import Failed

MOST_REPORTS = 2
"""Reports, one a second, for which loggers wait for front ends that say nothing."""
MOST_SILENT_REPORTS = 10
"""Reports after which nothing more is expected of them."""


@dataclass(slots=True)
class _Failure:
    """What is known of one failure.

    Attributes:
        awaited: Living front ends that have not told of it.
        told: What each has told.
        owned: As the engine's owner tells it; None before.
        unended: Number of requests that the engine had received and not ended then;
            None if that is not known.
        is_passed_on: Whether the loggers know.
        num_reports: For how many reports it has waited.
    """

    awaited: set[int]
    told: list[Failed] = field(default_factory=list)
    owned: Failed | None = None
    unended: int | None = None
    is_passed_on: bool = False
    num_reports: int = 0

    @property
    def num_orphans(self) -> int:
        """Number of requests of which the engine's totals know, but no front end."""
        received = [each.received for each in self.told if each.received is not None]
        if self.unended is None or len(received) < len(self.told):
            return 0  # no process ran
        return self.unended - sum(received)


class EngineFailures:
    """Adds up the requests that have ended with an engine; each front end has its own.

    The owner of an engine tells of its end, and the others of their requests, earlier
    or later. Requests of which none of them tells have ended with their front end.
    """

    def __init__(
        self, tell: Callable[[Failed], None], end_orphans: Callable[[int, int], None]
    ) -> None:
        """Tells of each failure once, and then of its engine's orphans, if any."""
        self._tell = tell
        self._end_orphans = end_orphans
        self._failures: dict[int, list[_Failure]] = {}

    def add(
        self,
        front_end: int,
        failed: Failed,
        others: Collection[int],
        *,
        is_owner: bool,
        unended: int | None = None,
    ) -> None:
        """Takes what a front end tells.

        Args:
            front_end: Its index.
            failed: The failure, with its own requests.
            others: The front ends that are heard.
            is_owner: Whether it owns the engine.
            unended: Number of requests that the engine had received and not ended, if
                it is the owner that tells.
        """
        failures = self._failures.setdefault(failed.engine_index, [])
        found = next((each for each in failures if front_end in each.awaited), None)
        if found is None:
            found = _Failure({*others})
            failures.append(found)
        found.awaited.discard(front_end)
        found.told.append(failed)
        if is_owner:
            found.owned, found.unended = failed, unended
        self._settle_told()

    def leave(self, front_end: int) -> None:
        """Stops waiting for a front end that has ended."""
        for failures in self._failures.values():
            for each in failures:
                each.awaited.discard(front_end)
        self._settle_told()

    def settle(self, engine_index: int) -> None:
        """Tells of an engine's failures, if there are any, with what is known."""
        for each in self._failures.get(engine_index, ()):
            self._pass_on(each)

    def settle_late(self) -> None:
        """Tells of those that have waited for long enough; call it once a second."""
        for index, failures in list(self._failures.items()):
            for each in failures:
                each.num_reports += 1
                if each.num_reports > MOST_REPORTS:
                    self._pass_on(each)
            kept = [each for each in failures if each.num_reports < MOST_SILENT_REPORTS]
            self._failures[index] = kept

    def settle_all(self) -> None:
        """Tells of all of them, because nothing more comes."""
        for index in self._failures:
            self.settle(index)

    def _settle_told(self) -> None:
        """Tells of those of which nobody has more to tell, in their order."""
        for index, failures in self._failures.items():
            while failures and failures[0].owned and not failures[0].awaited:
                failure = failures.pop(0)
                self._pass_on(failure)
                if (count := failure.num_orphans) > 0:
                    self._end_orphans(index, count)

    def _pass_on(self, failure: _Failure) -> None:
        if failure.owned is None or failure.is_passed_on:
            return
        failure.is_passed_on = True
        total = sum(each.open_requests for each in failure.told)
        self._tell(msgspec.structs.replace(failure.owned, open_requests=total))
