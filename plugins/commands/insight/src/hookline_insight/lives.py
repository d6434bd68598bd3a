"""What a request was at each moment, from its arrival to its end, without a gap."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from hookline_insight.account import Cause
from hookline_recording import (
    FrontEndTimes,
    RecordedRequest,
    Recording,
)

QUEUE, RUN, PREEMPTED = "queue", "run", "preempted"


class State(NamedTuple):
    """A span of a request's life, ns.

    Attributes:
        name: `queue`, `run` or `preempted`; else the cause that has all of it.
        since: When it was queued, or preempted.
    """

    begin: int
    end: int
    name: str
    since: int


class Lives:
    """The lives of the requests of a recording."""

    def __init__(self, recording: Recording, until: int) -> None:
        """Reads a recording, which ends at `until`, ns."""
        self._recording, self._until = recording, until
        self._begin = recording.records[0].at if recording.records else 0
        self._steps = {each.number: each for each in recording.steps}
        self._told = {
            (end.request_id, end.at): state.at
            for state in recording.states
            if state.events is not None
            for end in state.events.finished
        }

    def states(self, request_id: int) -> Iterator[State]:
        """Yields what a request was, from its arrival to its end, without a gap."""
        request = self._recording.requests[request_id]
        times = self._recording.front_end_times(request_id)
        marks = sorted(_of_front_end(times), key=lambda mark: mark[0])
        begin = marks[0][0] if marks else None
        own = sorted(self._marks(request), key=lambda mark: mark[0])
        if own and marks:  # the engine has it, whatever the front end's clock says
            marks = [mark for mark in marks if mark[0] < own[0][0]]
        marks += own
        if not marks:
            return
        ends_at, tail = self._until, list[tuple[int, str]]()
        if request.finished is not None:
            ends_at = max(self._told_at(request), request.finished.at)
            if times is not None:
                tail = self._tail(request, times, ends_at)
        elif times is not None and times.ended > ends_at:
            # Its engine has ended before it, and its client waited on.
            marks.append((ends_at, Cause.GONE))
            ends_at = times.ended
        since = marks[0][0] if begin is None else begin
        for (at, name), (after, _) in pairwise([*marks, (ends_at, ""), *tail]):
            if name in (QUEUE, PREEMPTED):
                since = at
            if after > at:
                yield State(at, after, name or Cause.DELIVERY, since)

    def first_token_at(self, request_id: int) -> int | None:
        """Returns when a request had its first token, if the recording has that."""
        request = self._recording.requests[request_id]
        if not request.scheduled or request.scheduled[0].is_resumed:
            return None
        for number in request.steps:
            step = self._steps[number]
            if step.computed is not None and step.sampled.get(request_id, 0):
                return step.computed.at
        return None

    def output_tokens(self, request_id: int) -> int:
        """Returns how many tokens a request has got, as far as they are recorded."""
        request = self._recording.requests[request_id]
        if request.finished is not None:
            return request.finished.output_tokens
        steps = (self._steps[number] for number in request.steps)
        return sum(step.sampled.get(request_id, 0) for step in steps)

    def _marks(self, request: RecordedRequest) -> Iterator[tuple[int, str]]:
        """Yields (time, what began then) of a request in its engine."""
        facts = request.facts
        if facts is not None:
            is_lost = request.queued_at is None and facts.at < self._begin
            yield facts.at, Cause.OVERWRITTEN if is_lost else Cause.INTAKE
        if request.queued_at is not None:
            yield request.queued_at, QUEUE
        for scheduled in request.scheduled:
            yield scheduled.at, RUN
        if not request.scheduled and request.steps:
            yield self._began(request.steps[0]), RUN
        for preempted in request.preempted:
            yield preempted.at, PREEMPTED
        if request.finished is not None:
            yield request.finished.at, Cause.EMISSION

    def _tail(
        self, request: RecordedRequest, times: FrontEndTimes, told_at: int
    ) -> list[tuple[int, str]]:
        """Returns what came after the engine: (end, name of what begins then)."""
        ended = max(told_at, times.ended)
        last = times.last_byte
        if last is None or last <= ended or not self._is_last(request):
            return [(ended, "")]
        waited = min(times.unread_ns, last - ended)
        if not waited:
            return [(ended, Cause.SENDING), (last, "")]
        sent = last - waited
        return [(ended, Cause.SENDING), (sent, Cause.CLIENT), (last, "")]

    def _is_last(self, request: RecordedRequest) -> bool:
        """Whether the response had no other completion that ended later."""
        served = request.served
        if served is None or request.facts is None:
            return False
        name = request.facts.client_id
        others = (
            self._recording.requests[each].served
            for each in self._recording.find_request(name)
        )
        return all(
            other is None or other.arrived + other.ended_ns <= served.at
            for other in others
        )

    def _began(self, number: int) -> int:
        step = self._steps[number]
        if step.published is not None:
            return step.published.started_at
        return step.planned.at if step.planned is not None else self._begin

    def _told_at(self, request: RecordedRequest) -> int:
        """Returns when the output with a request's end was sent."""
        ended = request.finished
        assert ended is not None
        return self._told.get((ended.request_id, ended.at), ended.at)


def _of_front_end(times: FrontEndTimes | None) -> Iterator[tuple[int, str]]:
    """Yields what a front end did before it sent a request to the engine."""
    if times is None:
        return
    if times.head is not None and times.head < times.arrived:
        yield times.head, Cause.HTTP
    yield times.arrived, Cause.PREPARATION
    if times.prepared is not None:
        yield times.prepared, Cause.INBOX
