"""What has happened since loggers were told last, of which they get a sum."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

from hookline.clock import NANOSECONDS
from hookline.events import StepEvents
from hookline.request import RequestFacts
from hookline.sections import NO_SECTIONS
from hookline.stats.iteration_stats import IterationStats

_KINDS = (*("queued", "scheduled", "preempted", "new_tokens", "finished", "evictions"),)
_SUMMED = tuple(each.name for each in fields(IterationStats) if each.name != "sections")


class News:
    """Events and statistics of a few steps, in their order.

    Attributes:
        at: Time of the last step; None if there is nothing.
        events: The events of all steps.
        facts: Those of the requests in the events.
    """

    def __init__(self) -> None:
        self.at: int | None = None
        self.facts: dict[int, RequestFacts] = {}
        self.events = StepEvents(
            queued=[],
            scheduled=[],
            preempted=[],
            new_tokens=[],
            finished=[],
            evictions=[],
        )
        self._iterations: list[IterationStats] = []
        self._intervals: Counter[int] = Counter()

    def add(
        self,
        at: int,
        events: StepEvents,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Adds a step."""
        self.at = at
        for kind in _KINDS:
            if happened := getattr(events, kind):
                getattr(self.events, kind).extend(happened)
        self._iterations.append(iteration)
        if facts:
            self.facts.update(facts)

    def count(self, at: int, intervals: Iterable[int]) -> None:
        """Adds a step's tokens that have been counted, by the ns before each."""
        self.at = at
        self._intervals.update(intervals)

    @property
    def iteration(self) -> IterationStats:
        """The sum of the steps' statistics."""
        counted = self._intervals
        if not counted:
            return summed(self._iterations)
        each = tuple((ns / NANOSECONDS, count) for ns, count in counted.items())
        tokens = IterationStats(
            generation_tokens=counted.total(), inter_token_seconds=each
        )
        return summed([*self._iterations, tokens])


def summed(iterations: Sequence[IterationStats]) -> IterationStats:
    """Returns the statistics of some steps as those of one."""
    if len(iterations) == 1:
        return iterations[0]
    whole: dict[str, Any] = {"sections": NO_SECTIONS}
    for name in _SUMMED:
        values = [getattr(each, name) for each in iterations]
        is_number = isinstance(values[0], int)
        whole[name] = sum(values) if is_number else tuple(chain.from_iterable(values))
    return IterationStats(**whole)
