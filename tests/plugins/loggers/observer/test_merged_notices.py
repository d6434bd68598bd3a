"""Notices of several front ends come to the loggers in an order that adds up."""

from typing import Any

import msgspec

from hookline.events import ClockPair, Finished, StepEvents, StepOutput
from hookline.finish_cause import Aborted
from hookline.frontend.observing import REQUESTS
from hookline.frontend.request_account import orphaned_request
from hookline.request import FinishReason
from hookline.request_ids import first_id
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_observer.engine_failures import MOST_SILENT_REPORTS
from hookline_observer.merging import MergedNotices
from hookline_observer.messages import Failed, Observed, Started
from hookline_testing.payloads import FACTS

OWNER, SECONDARY = 0, 1
BEGAN = Started(FACTS, ClockPair(wall=0, monotonic=0))
ENDED = Failed(FACTS.engine_index, "killed", 4, is_final=False)


def told_by_secondary(iteration: IterationStats) -> Observed:
    output = StepOutput(FACTS.engine_index, 0, REQUESTS, SchedulerStats())
    return Observed(output, iteration, {})


AGAIN = told_by_secondary(IterationStats(resubmitted=4))
UNHEARD = told_by_secondary(IterationStats(received_correction=2))


class Loggers:
    """Notes what loggers are told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def started(self, *_: object, **__: object) -> None:
        self.told.append("started")

    def failed(self, *_: object, **__: object) -> None:
        self.told.append("failed")

    def observe(self, _: StepOutput, iteration: IterationStats, __: object) -> None:
        self.told.append(iteration.received_correction - iteration.resubmitted)


def told(*notices: tuple[int, Any]) -> list[Any]:
    loggers: Any = Loggers()
    merged = MergedNotices(loggers, page_stats=lambda: (), restarts=0)
    for index, notice in notices:
        merged.on_notice(index, notice)
    return loggers.told  # type: ignore[no-any-return]


def test_a_guest_that_is_ahead_of_the_owner_waits() -> None:
    """What a new process gets again belongs behind its start."""
    began, ended, again = (OWNER, BEGAN), (OWNER, ENDED), (SECONDARY, AGAIN)

    assert told(again, began) == ["started", -4]
    assert told(began, ended, again, began) == ["started", "failed", "started", -4]
    assert told(began, ended, began, again) == ["started", "failed", "started", -4]


def test_a_guest_that_is_behind_the_owner_does_not_wait() -> None:
    """What a dead process had not heard of counts, whether it is replaced or not."""
    began, ended, unheard = (OWNER, BEGAN), (OWNER, ENDED), (SECONDARY, UNHEARD)

    assert told(began, ended, unheard) == ["started", "failed", 2]
    assert told(began, unheard, ended) == ["started", 2, "failed"]


class Ends:
    """Notes the requests that loggers are told of as ended."""

    def __init__(self) -> None:
        self.ended: list[FinishedRequest] = []

    def started(self, *_: object, **__: object) -> None:
        """Is not looked at."""

    def failed(self, *_: object, **__: object) -> None:
        """Is not looked at."""

    def front_end_changed(self, _: object) -> None:
        """Is not looked at."""

    def observe(self, _: StepOutput, iteration: IterationStats, __: object) -> None:
        self.ended += iteration.finished


def test_requests_end_whose_engine_and_front_end_were_killed_together() -> None:
    """Of ten that the engine had, two have ended, and five are of those that live."""
    totals = EngineTotals(received=8, migrated_in=2, finished={FinishReason.STOP: 2})
    state = StepOutput(FACTS.engine_index, 9, "failed", SchedulerStats(totals=totals))
    owners = msgspec.structs.replace(ENDED, received=4)
    others = msgspec.structs.replace(ENDED, received=1)
    loggers: Any = Ends()
    merged = MergedNotices(loggers)
    for front_end in (OWNER, SECONDARY, 7):
        merged.on_client_link(front_end, 0, 0.0)

    merged.on_notice(OWNER, BEGAN)
    merged.on_notice(OWNER, Observed(state, IterationStats(), {}))
    merged.on_notice(OWNER, owners)
    merged.on_notice(SECONDARY, others)
    merged.on_notice(OWNER, BEGAN)
    assert loggers.ended == []
    merged.leave(7)

    assert [each.cause.reason for each in loggers.ended] == [FinishReason.ABORT] * 3
    assert all(each.is_orphaned and each.request_id for each in loggers.ended)


def test_no_end_is_told_while_a_front_end_may_have_the_request() -> None:
    """It is forgotten after some reports; another failure is judged by itself."""
    totals = EngineTotals(received=8)
    state = StepOutput(FACTS.engine_index, 9, "failed", SchedulerStats(totals=totals))
    failed = msgspec.structs.replace(ENDED, received=5)
    loggers: Any = Ends()
    merged = MergedNotices(loggers)
    for front_end in (OWNER, SECONDARY):
        merged.on_client_link(front_end, 0, 0.0)
    merged.on_notice(OWNER, BEGAN)

    for _ in range(2):
        merged.on_notice(OWNER, Observed(state, IterationStats(), {}))
        merged.on_notice(OWNER, failed)
    merged.on_notice(SECONDARY, msgspec.structs.replace(ENDED, received=3))
    for _ in range(MOST_SILENT_REPORTS):
        merged.report()
    merged.leave(SECONDARY)

    assert loggers.ended == []


GUEST = 7
FIRST = first_id(GUEST)
WAITING = msgspec.structs.replace(
    ENDED, open_requests=0, received=3, waiting=(FIRST, FIRST + 1, FIRST + 2)
)


def finished(front_end: int, cause: str, *ids: int) -> tuple[int, Observed]:
    """What a front end tells of requests that have ended."""
    events = [Finished(each, 1, Aborted("client"), 0) for each in ids]
    ended = tuple(orphaned_request(each) for each in events)
    output = StepOutput(
        FACTS.engine_index,
        1,
        cause,
        SchedulerStats(),
        events=StepEvents(finished=events),
    )
    return front_end, Observed(output, IterationStats(finished=ended), {})


def ended_ids(*notices: tuple[int, Any]) -> list[int]:
    """Tells of an engine's end and of what follows; the guest ends before the last."""
    loggers: Any = Ends()
    merged = MergedNotices(loggers)
    for front_end in (OWNER, GUEST):
        merged.on_client_link(front_end, 0, 0.0)
    for index, notice in ((OWNER, BEGAN), (OWNER, ENDED), (GUEST, WAITING)):
        merged.on_notice(index, notice)
    for index, notice in notices[:-1]:
        merged.on_notice(index, notice)
    merged.leave(GUEST)
    for index, notice in notices[-1:]:
        merged.on_notice(index, notice)
    return sorted(each.request_id for each in loggers.ended)


def test_requests_end_whose_front_end_ends_while_they_wait_for_an_engine() -> None:
    """Those of which it has told something else since do not end again."""
    began = (OWNER, BEGAN)
    first, second, third = WAITING.waiting
    again = (GUEST, told_by_secondary(IterationStats(resubmitted=3)))
    moved = (GUEST, told_by_secondary(IterationStats(moved=3)))

    assert ended_ids(began) == [first, second, third]
    assert ended_ids(finished(GUEST, REQUESTS, second), began) == [first, second, third]
    assert ended_ids(again, began) == ended_ids(moved, began) == []


def test_requests_end_once_that_an_engine_has_got_again_unbeknown() -> None:
    """Their front end was killed before it told so, and the engine aborts them."""
    first, second, third = WAITING.waiting
    aborted = finished(OWNER, "step", first, second)

    assert ended_ids((OWNER, BEGAN), aborted) == [first, second, third]
    assert ended_ids((OWNER, BEGAN), aborted, (OWNER, BEGAN)) == [first, second, third]
