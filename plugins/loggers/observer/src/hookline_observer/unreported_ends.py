"""Ends of requests that a front end had no time to report before it ended itself."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import TypeVar

from hookline.events import Finished
from hookline.request_ids import client_of
from hookline.stats.finished_request import FinishedRequest
from hookline_observer.messages import Ended

E = TypeVar("E", Finished, FinishedRequest)

MOST_REPORTED = 8192
"""Latest ends remembered of each front end, as many as an engine does."""
MOST_GONE = 64
"""Front ends that have ended and are remembered."""


class UnreportedEnds:
    """Compares what front ends have reported with what engines have told them.

    An engine's list may come while notices of the front end still wait, so it is looked
    at once both are there: the list, and the front end's end.
    """

    def __init__(self) -> None:
        """Starts without front ends."""
        self._reported: dict[int, deque[int]] = {}
        self._gone: OrderedDict[int, frozenset[int]] = OrderedDict()
        self._lists: dict[int, list[Ended]] = {}

    def on_reported(self, front_end: int, request_ids: Iterable[int]) -> None:
        """Notes the ends that a front end reports."""
        reported = self._reported.setdefault(front_end, deque(maxlen=MOST_REPORTED))
        reported.extend(request_ids)

    def once(self, ends: Iterable[E]) -> Iterable[E]:
        """Leaves out ends that were told when their front end had ended."""
        for each in ends:
            told = self._gone.get(client_of(each.request_id), ())
            if each.request_id not in told:
                yield each

    def listed(self, ended: Ended) -> list[Ended]:
        """Takes an engine's list; returns what can be said now."""
        self._lists.setdefault(ended.front_end, []).append(ended)
        return self._compared(ended.front_end)

    def left(self, front_end: int) -> list[Ended]:
        """Notes that a front end has ended; returns what can be said now."""
        self._gone[front_end] = frozenset(self._reported.pop(front_end, ()))
        while len(self._gone) > MOST_GONE:
            oldest, _ = self._gone.popitem(last=False)
            self._lists.pop(oldest, None)
        return self._compared(front_end)

    def _compared(self, front_end: int) -> list[Ended]:
        """Returns the lists without what was reported."""
        if (reported := self._gone.get(front_end)) is None:
            return []
        return [
            Ended(
                each.engine_index,
                front_end,
                [event for event in each.recent if event.request_id not in reported],
            )
            for each in self._lists.pop(front_end, ())
        ]
