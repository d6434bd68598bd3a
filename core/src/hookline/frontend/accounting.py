"""Turns an engine's events into iteration statistics and finished requests.

It owns no text, stop strings or streams, and needs no tokenizer: the front end of any
engine can feed it. The delivery of text reports the ends that it causes
(`client_ended`).
"""

from collections.abc import Collection, Iterable, Sequence

from hookline.clock import Clock
from hookline.events import (
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    StepEvents,
    StepOutput,
    StepRecord,
)
from hookline.finish_cause import Aborted, Embedded, Failed, FinishCause, Rejected
from hookline.frontend.iteration import IterationBuilder
from hookline.frontend.request_account import (
    RequestAccount,
    RequestGroup,
    orphaned_request,
    rejected_request,
)
from hookline.frontend.timeline import ClockMapping
from hookline.frozen import frozen_json
from hookline.request import FinishReason, GenerateRequest, RequestFacts
from hookline.request_ids import client_of
from hookline.sections import NO_SECTIONS
from hookline.stats.iteration_stats import IterationStats


class RequestAccounting:
    """Accounts for the requests that one front end sends to one engine.

    A request is in flight from `admit` until the engine's FINISHED or `end_all`, even
    if its client has left before. Not thread-safe.

    Attributes:
        received: Number of requests admitted or rejected.
        finished: Number of requests ended, by finish reason.
        moved: Number of requests that left for another engine, because this one has
            ended.
        migrated_in: Number of requests that came from another engine; they are not in
            `received`.
        num_waiting_tokens: Prompt tokens of requests that were not scheduled yet.
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
        self.wall = ClockMapping(clock, engine_clock)
        self._clock = clock
        self._is_detailed = is_detailed
        self._keep_prompts = keep_prompts
        self._client_index = client_index
        self._accounts: dict[int, RequestAccount] = {}

    @property
    def num_in_flight(self) -> int:
        return len(self._accounts)

    @property
    def num_unheard(self) -> int:
        """Number of requests in flight for which no QUEUED has come yet.

        Those that another engine has counted as received are left out.
        """
        return sum(
            not (each.timeline.was_queued or each.is_moved)
            for each in self._accounts.values()
        )

    @property
    def residue(self) -> int:
        """Came − left − in flight; 0, or there is a bug."""
        came = self.received + self.migrated_in
        left = sum(self.finished.values()) + self.moved
        return came - left - len(self._accounts)

    def facts_of(self, request_ids: Iterable[int]) -> dict[int, RequestFacts]:
        """Facts about those of the requests that are in flight.

        Nothing is known about those of front ends that have ended. Call it before
        `on_step_output`, which forgets finished requests.
        """
        facts = {}
        for request_id in request_ids:
            if (account := self._accounts.get(request_id)) is not None:
                facts[request_id] = account.request.facts
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
        group, prepared_at = RequestGroup(len(request_ids)), self._clock.now()
        accounts = [
            RequestAccount(
                request,
                request_id,
                group,
                index=index,
                arrived_at=arrived_at,
                prepared_at=prepared_at,
                is_streamed=is_streamed,
                keeps_tokens=self._keep_prompts,
            )
            for index, request_id in enumerate(request_ids)
        ]
        self._accounts.update(zip(request_ids, accounts, strict=True))
        self.received += len(accounts)
        self.num_waiting_tokens += len(accounts) * len(request.prompt_token_ids)
        return accounts

    def restart(self, accounts: Iterable[RequestAccount]) -> None:
        """Lets requests begin again, at an engine that replaces theirs."""
        for account in accounts:
            if account.timeline.was_scheduled:
                self.num_waiting_tokens += account.prompt_tokens
            account.restart()

    def detach(self, request_ids: Iterable[int]) -> list[RequestAccount]:
        """Lets requests move to another engine, because this one has ended."""
        accounts = [self._accounts.pop(each) for each in request_ids]
        for account in accounts:
            self._no_longer_waits(account)
        self.moved += len(accounts)
        return accounts

    def take_over(self, accounts: Sequence[RequestAccount]) -> None:
        """Adds requests that another engine's accounting has released."""
        for account in accounts:
            account.restart()
            account.is_moved = True
            self._accounts[account.request_id] = account
            self.num_waiting_tokens += account.prompt_tokens
        self.migrated_in += len(accounts)

    def reject(self, facts: RequestFacts, cause: Rejected) -> IterationStats:
        """Counts a request that was refused before it reached the engine."""
        self.received += 1
        self._count_finished(FinishReason.REJECTED)
        return IterationStats(finished=(rejected_request(facts, cause),))

    def client_ended(self, request_id: int, cause: FinishCause, at: int) -> None:
        """Ends a request for its client, where the engine has not ended it yet.

        Its cause and time are those of the client's end; its tokens and phases are
        counted until the engine's FINISHED.
        """
        if (account := self._accounts.get(request_id)) is not None:
            account.record_end(cause, at)

    # -- what the engine reports -------------------------------------------------

    def on_step_output(self, output: StepOutput, received_at: int) -> IterationStats:
        """Counts the events of one output; events of unknown requests are ignored.

        Those of other front ends' requests come only when these front ends have ended.
        """
        sections = frozen_json(output.sections) if output.sections else NO_SECTIONS
        iteration = IterationBuilder(sections)
        events = output.events
        iteration.evictions += events.evictions
        if output.clock is not None:
            self.wall.set_engine(output.clock)
            self.wall.set_front_end(self._clock)
        self._take_scheduling(events, iteration)
        self._take_step(output.record)
        for tokens in events.new_tokens:
            self._take_tokens(tokens, iteration, received_at)
        for event in events.finished:
            if (account := self._accounts.get(event.request_id)) is not None:
                account.record_end(event.cause, received_at)
                self._close(account, event, iteration)
            elif client_of(event.request_id) != self._client_index:
                iteration.finished.append(orphaned_request(event))
        return iteration.build()

    def end_all(
        self, cause: Aborted | Failed, at: int, keep: Collection[int] = ()
    ) -> tuple[IterationStats, list[Finished]]:
        """Ends the requests in flight, because the engine is gone.

        Those in `keep` stay in flight.

        Returns:
            Their statistics, and a FINISHED for each in place of the engine's.
        """
        iteration, ended_at = IterationBuilder(), self.wall.on_engine(at)
        events = []
        for account in list(self._accounts.values()):
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
        return iteration.build(), events

    def _take_scheduling(self, events: StepEvents, iteration: IterationBuilder) -> None:
        for queued in events.queued:
            if (account := self._accounts.get(queued.request_id)) is not None:
                account.timeline.queued(queued)
        # A preemption precedes what the same step schedules, except after a failed
        # load: the end of the step that scheduled the request preempts it.
        failed = [each for each in events.preempted if each.failed_external_tokens]
        others = [each for each in events.preempted if not each.failed_external_tokens]
        self._take_preempted(others, iteration)
        for scheduled in events.scheduled:
            iteration.recomputed_tokens += scheduled.recomputed_tokens
            if (account := self._accounts.get(scheduled.request_id)) is not None:
                is_first = not account.timeline.was_scheduled
                self._no_longer_waits(account)
                account.timeline.scheduled(scheduled)
                if is_first and not account.had_schedule:
                    iteration.first_scheduled(account)
        self._take_preempted(failed, iteration)

    def _take_preempted(
        self, events: Iterable[Preempted], iteration: IterationBuilder
    ) -> None:
        for event in events:
            iteration.preemptions += 1
            if (account := self._accounts.get(event.request_id)) is not None:
                account.timeline.preempted(event)

    def _take_step(self, record: StepRecord | None) -> None:
        """Charges the step's times to every request of the step in full."""
        if record is None or not self._is_detailed:
            return
        forward_ns, execute_ns = record.execution.forward_ns, record.execute_ns
        schedule_ns = record.schedule_ns
        for request_id, _ in record.request_tokens:
            if (account := self._accounts.get(request_id)) is not None:
                account.timeline.computed(forward_ns, execute_ns, schedule_ns)

    def _take_tokens(
        self, event: NewTokens, iteration: IterationBuilder, received_at: int
    ) -> None:
        if (account := self._accounts.get(event.request_id)) is None:
            return
        interval = account.timeline.new_tokens(event, received_at)
        if interval is None and not account.had_token:
            iteration.first_token(account)
        iteration.generated(len(event.token_ids), interval)
        if account.output_token_ids is not None:
            account.output_token_ids += event.token_ids

    def _close(
        self, account: RequestAccount, event: Finished, iteration: IterationBuilder
    ) -> None:
        """Counts an ended request, exactly once, and forgets it."""
        del self._accounts[event.request_id]
        self._no_longer_waits(account)
        account.timeline.finished(event)
        if isinstance(event.cause, Embedded):
            iteration.prompt(account)
        summary = account.summary(self.wall)
        self._count_finished(summary.reason)
        iteration.finished.append(summary)
        group = account.group
        group.ended.append(summary)
        if group.is_over:
            iteration.finished_groups.append(group.summary())

    def _no_longer_waits(self, account: RequestAccount) -> None:
        if not account.timeline.was_scheduled:
            self.num_waiting_tokens -= account.prompt_tokens

    def _count_finished(self, reason: FinishReason) -> None:
        self.finished[reason] = self.finished.get(reason, 0) + 1
