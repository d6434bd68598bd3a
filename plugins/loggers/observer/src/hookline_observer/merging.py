"""Makes one stream of notices for the loggers out of those of several front ends."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from hookline.events import Finished, StepEvents, StepOutput
from hookline.finish_cause import Aborted
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observation import Observers
from hookline.frontend.observing import REQUESTS
from hookline.frontend.request_account import orphaned_request
from hookline.frozen import frozen_map
from hookline.payloads import (
    EngineFailed,
    HttpAnswered,
    HttpExchange,
    PageStats,
    RecordsLogged,
)
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.front_end_parts import ObserverStats
from hookline_observer.engine_failures import EngineFailures
from hookline_observer.kept_merging import KeptFile
from hookline_observer.lost_notices import LostNotices
from hookline_observer.merged_parts import MergedParts
from hookline_observer.messages import (
    Answered,
    Changed,
    Ended,
    Failed,
    Logged,
    Notice,
    Observed,
    Started,
    Stopped,
    parts_of,
)
from hookline_observer.shared_engines import SharedEngines
from hookline_observer.unreported_ends import UnreportedEnds
from hookline_observer.waiting_requests import WaitingRequests
from hookline_processes.logged_record import LoggedRecord

MOST_EARLY = 1024
"""Maximum number of notices about engines whose start has not been told yet."""

_NOT_TIMED = ("rejected", "failed", "drain")
"""Causes of what front ends tell at the time of an engine's latest state."""

PageStatsOf = Callable[[], tuple[PageStats, ...]]


class MergedNotices:
    """Passes notices on, and adds up what each front end knows only of itself.

    Events, HTTP exchanges and log records happen in one front end each, and are passed
    on as they are. HTTP requests in flight and the parts of front ends are added up.
    """

    def __init__(
        self,
        observers: Observers,
        page_stats: PageStatsOf = tuple,
        *,
        restarts: int = 0,
        left_out: tuple[str, ...] = (),
        kept: Path | None = None,
    ) -> None:
        """Passes everything to `observers`.

        Args:
            observers: The loggers.
            page_stats: Returns the state of the loggers' pages.
            restarts: How often this process has been replaced.
            left_out: Loggers that do not run, because they have ended it.
            kept: File of what the process that replaces this one goes on with.
        """
        self._kept = KeptFile(kept)
        before = self._kept.read()
        self._left_out = left_out
        self._observers = observers
        self._restarts = restarts
        self._page_stats = page_stats
        self._in_flight: dict[int, Mapping[tuple[str, str], int]] = {}
        self._parts = MergedParts()
        self._parts.go_on(before.parts)
        self._unreported = UnreportedEnds()
        self._states: dict[int, StepOutput] = {}
        self._since: dict[int, int] = {}
        self._down: set[int] = set()
        self._owners: dict[int, int] = {}
        self._failures = EngineFailures(self._tell_failure, self._end_orphans)
        self._waiting = WaitingRequests()
        self._early: list[tuple[int, Observed]] = []
        self._shared = SharedEngines()
        self._lost = LostNotices(before.lost, before.lost_by_front_end)
        self._waited: dict[int, float] = {}
        self._reported: ObserverStats | None = None

    def on_notice(self, index: int, notice: Notice) -> None:
        """Takes a notice of front end `index`."""
        if isinstance(notice, Observed):
            self._observe(index, notice)
        elif isinstance(notice, Ended):
            self._take_ended(notice)
        elif isinstance(notice, Started):
            self._start(index, self._shared.start(index, notice))
        elif isinstance(notice, Stopped):
            self._stop(index, notice)
        elif isinstance(notice, Failed):
            self._fail(index, notice)
        elif isinstance(notice, Answered):
            self._take_answered(index, notice)
        elif isinstance(notice, Changed):
            self._change(self._parts.merge(index, parts_of(notice)))
        elif isinstance(notice, Logged):
            self._observers.records_logged(_sealed(notice.logged))

    def _fail(self, index: int, notice: Failed) -> None:
        is_owner = self._owners.get(notice.engine_index) == index
        if is_owner:
            self._down.add(notice.engine_index)
        if notice.waiting:
            self._waiting.wait(index, notice.engine_index, notice.waiting)
        unended = self._unended(notice.engine_index) if is_owner else None
        heard = self._waited.keys()
        self._failures.add(index, notice, heard, is_owner=is_owner, unended=unended)

    def _unended(self, engine_index: int) -> int | None:
        """Returns the number of open requests in the state that the owner told last."""
        if (state := self._states.get(engine_index)) is None:
            return None
        totals = state.stats.totals
        return totals.received + totals.migrated_in - sum(totals.finished.values())

    def _tell_failure(self, failed: Failed) -> None:
        payload = EngineFailed(
            engine_index=failed.engine_index,
            reason=failed.reason,
            open_requests=failed.open_requests,
            is_final=failed.is_final,
        )
        self._observers.failed(payload)

    def _end_orphans(self, engine_index: int, count: int) -> None:
        """Reports the ends of requests whose ids no front end has told."""
        ids = range(-1, -1 - count, -1)
        self._report_unreported([_ended_together(engine_index, -1, ids)])

    def _stop(self, index: int, notice: Stopped) -> None:
        if self._shared.stop(index, notice.engine_index):
            self._failures.settle(notice.engine_index)
            self._observers.stopped(notice.engine_index, notice.reason)

    def _start(self, index: int, notice: Started | None) -> None:
        if notice is None:  # other front ends of the engine have yet to tell it
            return
        self._owners[notice.facts.engine_index] = index
        self._failures.settle(notice.facts.engine_index)
        self._states.pop(notice.facts.engine_index, None)
        self._down.discard(notice.facts.engine_index)
        self._since[notice.facts.engine_index] = notice.since
        self._observers.started(
            notice.facts,
            notice.clock,
            restart_cause=notice.restart_cause,
            resubmitted=notice.resubmitted,
            ended_before=notice.ended_before,
        )
        early, self._early = self._early, []
        for front_end, each in early:
            self._observe(front_end, each)

    def _observe(self, index: int, notice: Observed) -> None:
        """Passes it on, unless what ended then is told as part of a start."""
        output = notice.output
        self._waiting.observe(index, output.engine_index, notice.iteration)
        since = self._since.get(output.engine_index)
        # A secondary client may tell that a new process gets requests again before the
        # owner tells of that process.
        is_early = since is None or (
            output.engine_index in self._down and notice.iteration.resubmitted > 0
        )
        if is_early and len(self._early) < MOST_EARLY:
            self._early.append((index, notice))
            return
        if output.cause == REQUESTS and (ended := notice.iteration.finished):
            self._unreported.on_reported(index, [each.request_id for each in ended])
        if since is not None:
            since = self._shared.since(index, output.engine_index, since)
        if since is None or (output.at <= since and output.cause not in _NOT_TIMED):
            self._lost.miss()
            return
        whole = self._shared.whole(index, output)
        output = self._with_latest_state(output) if whole is None else whole
        iteration = notice.whole_iteration
        if iteration.finished:
            # An engine may have got requests again whose front end never said so.
            ended = tuple(self._unreported.once(iteration.finished))
            iteration = replace(iteration, finished=ended)
            finished = [*self._unreported.once(output.events.finished)]
            events = msgspec.structs.replace(output.events, finished=finished)
            output = msgspec.structs.replace(output, events=events)
        self._observers.observe(output, iteration, notice.facts)

    def _take_ended(self, notice: Ended) -> None:
        since = self._since.get(notice.engine_index, -1)
        recent = [event for event in notice.recent if event.at > since]
        if recent:  # else all ended before our start, as its front end may have
            ended = msgspec.structs.replace(notice, recent=recent)
            self._report_unreported(self._unreported.listed(ended))

    def on_client_link(self, index: int, lost: int, waited_seconds: float) -> None:
        """Takes what a front end says of its notices: the lost, and the last's wait."""
        self._lost.note(index, lost)
        self._waited[index] = waited_seconds
        self._observers.lost = self._lost.here

    def leave(self, index: int, *, is_reported: bool = True) -> None:
        """A front end has ended: its totals stay, all else of it is gone."""
        self._lost.leave(index)
        self._waited.pop(index, None)
        waited = self._waiting.left(index)
        orphans = [
            _ended_together(at, index, sorted(ids)) for at, ids in waited.items()
        ]
        for each in waited.values():
            self._unreported.on_reported(index, each)
        unreported = [*self._unreported.left(index), *orphans]
        self._failures.leave(index)
        in_flight, parts = self._in_flight.pop(index, None), self._parts.leave(index)
        if is_reported and in_flight:
            self._answer((), 0)
        if is_reported:
            self._change(parts)
            self._report_unreported(unreported)

    def report(self) -> None:
        """Tells of the notices themselves, if that has changed; once a second."""
        self._failures.settle_late()
        stats = ObserverStats(
            dropped=self._lost.total,
            waited_seconds=max(self._waited.values(), default=0.0),
            front_ends=len(self._waited),
            restarts=self._restarts,
            left_out=self._left_out,
        )
        if stats != self._reported:
            self._reported = stats
            self._change((stats,))
        self._kept.write(self._parts.left, self._lost.before, self._lost.by_front_end)

    def end(self) -> None:
        """Tells what has waited for more; nothing more comes."""
        self._failures.settle_all()

    def _take_answered(self, index: int, notice: Answered) -> None:
        self._in_flight[index] = {
            (route, method): count for route, method, count in notice.in_flight
        }
        self._answer(notice.exchanges, notice.missed)

    def _answer(self, exchanges: tuple[HttpExchange, ...], missed: int) -> None:
        in_flight: Counter[tuple[str, str]] = Counter()
        for each in self._in_flight.values():
            in_flight.update(each)
        self._observers.http_answered(
            HttpAnswered(
                exchanges=exchanges,
                in_flight=frozen_map(dict(in_flight)),
                missed=missed,
                pages=self._page_stats(),
            )
        )

    def _with_latest_state(self, output: StepOutput) -> StepOutput:
        """Gives what a front end tells of its requests the state that its owner told.

        Front ends are late by different times, but the state must not go back.
        """
        if output.cause != REQUESTS:
            self._states[output.engine_index] = output
            return output
        if (latest := self._states.get(output.engine_index)) is None:
            return output
        at = max(output.at, latest.at)
        return msgspec.structs.replace(output, at=at, stats=latest.stats)

    def _report_unreported(self, lists: Iterable[Ended]) -> None:
        """Tells ends that a front end had no time to tell: what is known of them."""
        for each in lists:
            if not each.recent:
                continue
            state = self._states.get(each.engine_index)
            output = StepOutput(
                each.engine_index,
                0 if state is None else state.at,  # else older than any state
                REQUESTS,
                SchedulerStats() if state is None else state.stats,
                events=StepEvents(finished=each.recent),
            )
            ended = tuple(orphaned_request(event) for event in each.recent)
            facts = {event.request_id: RequestFacts() for event in each.recent}
            self._observers.observe(output, IterationStats(finished=ended), facts)

    def _change(self, parts: tuple[FrontEndPart, ...]) -> None:
        if parts:
            self._observers.front_end_changed(parts)


def _ended_together(engine_index: int, front_end: int, ids: Iterable[int]) -> Ended:
    """Returns the ends of requests whose engine and front end have ended."""
    cause = Aborted("its front end and its engine have ended")
    return Ended(engine_index, front_end, [Finished(one, 0, cause, 0) for one in ids])


def _sealed(logged: RecordsLogged) -> RecordsLogged:
    records = tuple(_sealed_record(each) for each in logged.records)
    return replace(logged, records=records)


def _sealed_record(record: LoggedRecord) -> LoggedRecord:
    return replace(record, fields=frozen_map(record.fields))
