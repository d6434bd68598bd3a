"""Makes one failure of an engine out of what each front end tells of it."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import msgspec

from hookline_observer.messages import Failed

MOST_REPORTS = 2
"""Reports, one a second, for which a failure waits for front ends that say nothing."""


@dataclass(slots=True)
class _Told:
    """What is known of one failure.

    Attributes:
        failed: As the engine's owner tells it; None before.
        open_requests: What each front end had there that has ended.
        num_reports: For how many reports it has waited.
    """

    failed: Failed | None = None
    open_requests: Counter[int] = field(default_factory=Counter)
    num_reports: int = 0


class EngineFailures:
    """Adds up the requests that have ended with an engine; each front end has its own.

    The owner of an engine tells of its end, and the others of their requests, earlier
    or later.
    """

    def __init__(self, tell: Callable[[Failed], None]) -> None:
        """Tells of each failure once."""
        self._tell = tell
        self._told: dict[int, _Told] = {}

    def add(
        self, front_end: int, failed: Failed, others: Collection[int], *, is_owner: bool
    ) -> None:
        """Takes what a front end tells.

        Args:
            front_end: Its index.
            failed: The failure, with its own requests.
            others: The front ends that are heard.
            is_owner: Whether it owns the engine.
        """
        index = failed.engine_index
        if is_owner and (known := self._told.get(index)) and known.failed is not None:
            self.settle(index)  # this is another one
        told = self._told.setdefault(index, _Told())
        told.open_requests[front_end] += failed.open_requests
        if is_owner:
            told.failed = failed
        if told.failed is not None and told.open_requests.keys() >= {*others}:
            self.settle(index)

    def settle(self, engine_index: int) -> None:
        """Tells of an engine's failure, if there is one, with what is known."""
        told = self._told.pop(engine_index, None)
        if told is not None and told.failed is not None:
            total = told.open_requests.total()
            self._tell(msgspec.structs.replace(told.failed, open_requests=total))

    def settle_late(self) -> None:
        """Tells of those that have waited for long enough; call it once a second."""
        for index, told in list(self._told.items()):
            told.num_reports += 1
            if told.num_reports > MOST_REPORTS:
                self.settle(index)

    def settle_all(self) -> None:
        """Tells of all of them, because nothing more comes."""
        for index in list(self._told):
            self.settle(index)
