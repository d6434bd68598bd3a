"""Turns an engine's events into iteration statistics and finished requests.

It owns no text, stop strings or streams, and needs no tokenizer: the front end of any
engine can feed it. The delivery of text reports the ends that it causes
(`client_ended`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS, Clock
from hookline.events import (
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    Scheduled,
    StepEvents,
    StepOutput,
    StepRecord,
)
from hookline.finish_cause import Aborted, Embedded, Failed, FinishCause, Rejected
from hookline.frontend.request_account import (
    RequestAccount,
    RequestGroup,
    orphaned_request,
)
from hookline.frontend.timeline import ClockMapping
from hookline.frozen import frozen_json
from hookline.request import FinishReason, GenerateRequest, RequestFacts
from hookline.request_ids import client_of
from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.step_work import BlockEviction


@dataclass(slots=True)
class _Iteration:
    """The statistics of one output, as they add up; named as in `IterationStats`."""

    evictions: Sequence[BlockEviction] = ()
    sections: Sections = field(default_factory=lambda: NO_SECTIONS)
    prompt_tokens_computed: int = 0
    prompt_tokens_local: int = 0
    prompt_tokens_external: int = 0
    prompt_tokens_transferred: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    first_scheduled: list[FirstScheduled] = field(default_factory=list)
    first_tokens: list[FirstToken] = field(default_factory=list)
    # Requests that decode together share an interval: few keys, not hundreds.
    inter_token_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    finished: list[FinishedRequest] = field(default_factory=list)
    finished_groups: list[FinishedGroup] = field(default_factory=list)

    def count_prompt(self, account: RequestAccount) -> None:
        """Counts a request's prompt once it is computed."""
        timeline = account.timeline
        local, external = timeline.local_cached_tokens, timeline.external_cached_tokens
        found = local + external + timeline.transferred_tokens
        self.prompt_tokens_computed += account.group.prompt_tokens - found
        self.prompt_tokens_local += local
        self.prompt_tokens_external += external
        self.prompt_tokens_transferred += timeline.transferred_tokens

    def count_first_token(self, account: RequestAccount) -> None:
        """Counts the prompt and the time to the first token, if no engine had one."""
        if not account.had_token and (seconds := account.ttft_seconds) is not None:
            self.count_prompt(account)
            self.first_tokens.append(account.first_token(seconds))

    def stats(self) -> IterationStats:
        intervals = []
        for (interval, tokens), count in self.inter_token_ns.items():
            intervals.append((interval / NANOSECONDS / tokens, count))
        return IterationStats(
            prompt_tokens_computed=self.prompt_tokens_computed,
            prompt_tokens_local=self.prompt_tokens_local,
            prompt_tokens_external=self.prompt_tokens_external,
            prompt_tokens_transferred=self.prompt_tokens_transferred,
            generation_tokens=self.generation_tokens,
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
            first_scheduled=tuple(self.first_scheduled),
            first_tokens=tuple(self.first_tokens),
            inter_token_seconds=tuple(intervals),
            finished=tuple(self.finished),
            finished_groups=tuple(self.finished_groups),
            evictions=tuple(self.evictions),
            sections=self.sections,
        )


class RequestAccounting:
    """Accounts for the requests that one front end sends to one engine.

    A request is in flight from `admit` until the engine's FINISHED or `end_all`, even
    if its client has left before. Not thread-safe.

    Attributes:
        received: Number of requests admitted or rejected.
        finished: Number of requests ended, by finish reason.
        moved: Number of requests that left for another engine, as this one has ended.
        migrated_in: Number of requests from another engine; not in `received`.
        num_waiting_tokens: Prompt tokens of requests that were not scheduled yet.
        in_flight: Requests in flight by their ids; only for reading.
        wall: Places times of the engine and the front end on the wall clock.
    """

    def __init__(
        self,
        clock: Clock,
        engine_clock: ClockPair,
        *,
        is_detailed: bool = False,
        keep_prompts: bool = False,
        client_index: int = 0,
    ) -> None:
        """Starts without requests.

        Args:
            clock: The front end's clock, which takes all times given to the methods.
            engine_clock: The engine's clocks at its start.
            is_detailed: Sum up forward and execute times for each request.
            keep_prompts: Keep token ids for observers.
            client_index: Index of this front end among the engine's clients.
        """
        self.received = 0
        self.finished: dict[str, int] = {}
        self.moved = 0
        self.migrated_in = 0
        self.num_waiting_tokens = 0
        self.in_flight: dict[int, RequestAccount] = {}
        self.wall = ClockMapping(clock, engine_clock)
        self._clock = clock
        self._is_detailed = is_detailed
        self._keep_prompts = keep_prompts
        self._client_index = client_index

    @property
    def num_in_flight(self) -> int:
        return len(self.in_flight)

    @property
    def num_unheard(self) -> int:
        """Number of requests in flight for which no QUEUED has come yet.

        Leaves out requests that already count as received by an engine that has ended.
        """
        return sum(
            not (each.timeline.was_queued or each.is_moved)
            for each in self.in_flight.values()
        )

    @property
    def residue(self) -> int:
        """Came − left − in flight; 0, or there is a bug."""
        came = self.received + self.migrated_in
        left = sum(self.finished.values()) + self.moved
        return came - left - len(self.in_flight)

    def facts_of(self, request_ids: Iterable[int]) -> dict[int, RequestFacts]:
        """Facts about those of the requests that are in flight.

        Nothing is known about those of front ends that have ended. Call it before
        `on_step_output`, which forgets finished requests.
        """
        facts = {}
        for request_id in request_ids:
            if (account := self.in_flight.get(request_id)) is not None:
                facts[request_id] = account.group.request.facts
            elif client_of(request_id) != self._client_index:
                facts[request_id] = RequestFacts()
        return facts

    # -- what the front end reports ----------------------------------------------

    def admit(
        self,
        request: GenerateRequest,
        request_ids: Sequence[int],
        *,
        arrived_at: int,
        is_streamed: bool = False,
    ) -> list[RequestAccount]:
        """Adds all completions of one client request, which is ready to be sent.

        Args:
            request: The request.
            request_ids: An id for each completion.
            arrived_at: When it arrived, in ns on the front end's clock.
            is_streamed: Whether the client gets tokens as they are generated.

        Returns:
            Their accounts, in order; read-only for the caller.
        """
        size, prepared_at = len(request_ids), self._clock.now()
        group = RequestGroup(request, size, arrived_at, prepared_at, is_streamed)
        accounts = []
        for index, request_id in enumerate(request_ids):
            kept: list[int] | None = [] if self._keep_prompts else None
            account = RequestAccount(group, request_id, index, kept)
            self.in_flight[request_id] = account
            accounts.append(account)
        self.received += size
        self.num_waiting_tokens += size * len(request.prompt_token_ids)
        return accounts

    def restart(self, accounts: Iterable[RequestAccount]) -> None:
        """Lets requests begin again, at an engine that replaces theirs."""
        for account in accounts:
            if account.timeline.was_scheduled:
                self.num_waiting_tokens += account.group.prompt_tokens
            account.restart()

    def detach(self, request_ids: Iterable[int]) -> list[RequestAccount]:
        """Lets requests move to another engine, because this one has ended."""
        accounts = [self.in_flight.pop(each) for each in request_ids]
        for account in accounts:
            self._no_longer_waits(account)
        self.moved += len(accounts)
        return accounts

    def take_over(self, accounts: Sequence[RequestAccount]) -> None:
        """Adds requests that another engine's accounting has released."""
        for account in accounts:
            account.restart()
            self.in_flight[account.request_id] = account
            self.num_waiting_tokens += account.group.prompt_tokens
        self.migrated_in += len(accounts)

    def reject(self, facts: RequestFacts, cause: Rejected) -> IterationStats:
        """Counts a request that was refused before it reached the engine."""
        self.received += 1
        self._count_finished(FinishReason.REJECTED)
        request = FinishedRequest(request_id=0, facts=facts, cause=cause)
        return IterationStats(finished=(request,))

    def client_ended(self, request_id: int, cause: FinishCause, at: int) -> None:
        """Ends a request for its client, where the engine has not ended it yet.

        Its cause and time are those of the client's end; its tokens and phases are
        counted until the engine's FINISHED.
        """
        if (account := self.in_flight.get(request_id)) is not None:
            account.record_end(cause, at)

    # -- what the engine reports -------------------------------------------------

    def on_step_output(self, output: StepOutput, received_at: int) -> IterationStats:
        """Counts the events of one output; events of unknown requests are ignored.

        Those of other front ends' requests come only when these front ends have ended.
        """
        sections = frozen_json(output.sections) if output.sections else NO_SECTIONS
        events = output.events
        iteration = _Iteration(events.evictions, sections)
        if output.clock is not None:
            self.wall.set_engine(output.clock)
            self.wall.set_front_end(self._clock)
        if events.queued or events.scheduled or events.preempted:
            self._take_scheduling(events, iteration)
        if self._is_detailed and output.record is not None:
            self._take_step(output.record)
        for tokens in events.new_tokens:
            self._take_tokens(tokens, iteration, received_at)
        for event in events.finished:
            if (account := self.in_flight.get(event.request_id)) is not None:
                account.record_end(event.cause, received_at)
                self._close(account, event, iteration)
            elif client_of(event.request_id) != self._client_index:
                iteration.finished.append(orphaned_request(event))
        return iteration.stats()

    def end_all(
        self, cause: Aborted | Failed, at: int, keep: Collection[int] = ()
    ) -> tuple[IterationStats, list[Finished]]:
        """Ends the requests in flight, because the engine is gone.

        Those in `keep` stay in flight.

        Returns:
            Their statistics, and a FINISHED for each in place of the engine's.
        """
        iteration, ended_at = _Iteration(), self.wall.on_engine(at)
        events = []
        for account in list(self.in_flight.values()):
            if account.request_id in keep:
                continue
            account.record_end(cause, at)
            event = Finished(
                account.request_id,
                ended_at,
                account.cause or cause,
                account.timeline.output_tokens,
            )
            events.append(event)
            self._close(account, event, iteration)
        return iteration.stats(), events

    def _take_scheduling(self, events: StepEvents, iteration: _Iteration) -> None:
        for queued in events.queued:
            if (account := self.in_flight.get(queued.request_id)) is not None:
                account.timeline.queued(queued)
        # A preemption precedes what the same step schedules, except after a failed
        # load: the end of the step that scheduled the request preempts it.
        self._take_preempted(events.preempted, iteration, failed=False)
        for scheduled in events.scheduled:
            self._take_scheduled(scheduled, iteration)
        self._take_preempted(events.preempted, iteration, failed=True)

    def _take_scheduled(self, event: Scheduled, iteration: _Iteration) -> None:
        iteration.recomputed_tokens += event.recomputed_tokens
        if (account := self.in_flight.get(event.request_id)) is None:
            return
        is_first = not (account.timeline.was_scheduled or account.had_schedule)
        self._no_longer_waits(account)
        account.timeline.scheduled(event)
        waited, facts = account.timeline.queue_seconds, account.group.request.facts
        if is_first and waited is not None:
            first = FirstScheduled(
                queue_seconds=waited, trace_id=facts.trace_id, span_id=facts.span_id
            )
            iteration.first_scheduled.append(first)

    def _take_preempted(
        self, events: Iterable[Preempted], iteration: _Iteration, *, failed: bool
    ) -> None:
        for event in events:
            if bool(event.failed_external_tokens) is not failed:
                continue
            iteration.preemptions += 1
            if (account := self.in_flight.get(event.request_id)) is not None:
                account.timeline.preempted(event)

    def _take_step(self, record: StepRecord) -> None:
        """Charges the step's times to every request of the step in full."""
        forward_ns, execute_ns = record.execution.forward_ns, record.execute_ns
        schedule_ns = record.schedule_ns
        for request_id, _ in record.request_tokens:
            if (account := self.in_flight.get(request_id)) is not None:
                account.timeline.computed(forward_ns, execute_ns, schedule_ns)

    def _take_tokens(
        self, event: NewTokens, iteration: _Iteration, received_at: int
    ) -> None:
        if (account := self.in_flight.get(event.request_id)) is None:
            return
        interval = account.timeline.new_tokens(event, received_at)
        tokens = len(event.token_ids)
        iteration.generation_tokens += tokens
        if interval is None:
            iteration.count_first_token(account)
        elif tokens:  # they share the time since the last
            key, counts = (interval, tokens), iteration.inter_token_ns
            counts[key] = counts.get(key, 0) + tokens
        if account.output_token_ids is not None:
            account.output_token_ids += event.token_ids

    def _close(
        self, account: RequestAccount, event: Finished, iteration: _Iteration
    ) -> None:
        """Counts an ended request, exactly once, and forgets it."""
        del self.in_flight[event.request_id]
        self._no_longer_waits(account)
        account.timeline.finished(event)
        if isinstance(event.cause, Embedded):
            iteration.count_prompt(account)
        summary = account.summary(self.wall)
        self._count_finished(summary.reason)
        iteration.finished.append(summary)
        account.group.ended.append(summary)
        if (group := account.group.finished()) is not None:
            iteration.finished_groups.append(group)

    def _no_longer_waits(self, account: RequestAccount) -> None:
        if not account.timeline.was_scheduled:
            self.num_waiting_tokens -= account.group.prompt_tokens

    def _count_finished(self, reason: FinishReason) -> None:
        self.finished[reason] = self.finished.get(reason, 0) + 1
