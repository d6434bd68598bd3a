"""What an engine did at each moment: spans that follow each other without a gap."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from hookline_recording import RecordedStep


class Activity(StrEnum):
    """What an engine does; computing hides all else that it does meanwhile."""

    SCHEDULE = "schedule"
    EXECUTE = "execute"
    UPDATE = "update"
    BETWEEN = "between"
    UNKNOWN = "unknown"


class Span(NamedTuple):
    """A span of time, ns.

    Attributes:
        step: Index of its step in the recording; between steps, of the one before.
    """

    begin: int
    end: int
    activity: Activity
    step: int | None


class Activities:
    """The spans of a recording, from its first moment to its last."""

    def __init__(self, steps: Sequence[RecordedStep], begin: int, end: int) -> None:
        self._spans = list(_tiled(steps, begin, end))
        self._begins = [each.begin for each in self._spans]

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def within(self, begin: int, end: int) -> Iterator[Span]:
        """Yields the spans of an interval, cut at its ends; they fill it.

        What lies before or after the recording is unknown.
        """
        if begin >= end:
            return
        at = begin
        index = max(0, bisect_right(self._begins, begin) - 1)
        for span in self._spans[index:]:
            if span.begin >= end:
                break
            if span.end <= at:
                continue
            if span.begin > at:
                yield Span(at, span.begin, Activity.UNKNOWN, None)
                at = span.begin
            cut = min(span.end, end)
            is_whole = span.begin == at and span.end == cut
            yield span if is_whole else span._replace(begin=at, end=cut)
            at = cut
        if at < end:
            yield Span(at, end, Activity.UNKNOWN, None)


def _tiled(steps: Sequence[RecordedStep], begin: int, end: int) -> Iterator[Span]:
    at = begin
    before: RecordedStep | None = None
    ended = [each for each, step in enumerate(steps) if step.computed is not None]
    newest = ended[-1] if ended else -1
    for index, step in enumerate(steps):
        planned = step.planned
        if planned is None:
            continue
        last = index - 1 if index else None
        is_next = before is None or step.number == before.number + 1
        starts = planned.at
        if step.published is not None:
            starts = step.published.started_at
        yield from _gap(before, at, max(at, starts), last, is_known=is_next)
        at = max(at, starts)
        if planned.at > at:
            yield Span(at, planned.at, Activity.SCHEDULE, index)
            at = planned.at
        if step.computed is not None:
            done = step.computed.at
        else:  # it is in flight, unless a later one has ended: then that is not known
            done = end if index > newest else at
        if done > at:
            yield Span(at, done, Activity.EXECUTE, index)
            at = done
        before = step
    yield from _gap(before, at, end, len(steps) - 1 if steps else None, is_known=True)


def _gap(
    before: RecordedStep | None,
    begin: int,
    end: int,
    index: int | None,
    *,
    is_known: bool,
) -> Iterator[Span]:
    """Yields what lies between a step's result and the next step."""
    if before is not None and before.computed is not None and before.published:
        updated = min(end, before.computed.at + before.published.updated_ns)
        if updated > begin:
            yield Span(begin, updated, Activity.UPDATE, index)
            begin = updated
    if end > begin:
        activity = Activity.BETWEEN if is_known else Activity.UNKNOWN
        yield Span(begin, end, activity, index)
