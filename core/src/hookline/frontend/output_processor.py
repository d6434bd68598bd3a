"""Takes the engine's outputs in: text to clients, numbers to observers."""

from collections.abc import Iterable

from hookline.clock import Clock
from hookline.events import (
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    StepOutput,
    StepRecord,
)
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Failed, FinishCause
from hookline.frontend.client_request import ClientRequest, Completion
from hookline.frontend.iteration import IterationBuilder
from hookline.frontend.wall_time import WallTime
from hookline.request import FinishReason, RequestFacts
from hookline.stats import FinishedGroup, FinishedRequest, IterationStats

Stopped = dict[FinishCause, list[int]]
"""Ids of requests that a stop string ended, by that cause."""


class OutputProcessor:
    """Keeps every request of the front end until the engine has confirmed its end."""

    def __init__(
        self,
        clock: Clock,
        engine_clock: ClockPair,
        *,
        is_detailed: bool = False,
        keep_prompts: bool = False,
    ) -> None:
        self._clock = clock
        self._wall = WallTime(clock, engine_clock)
        self._is_detailed = is_detailed
        self._keep_prompts = keep_prompts
        self._completions: dict[int, Completion] = {}
        self.received = 0
        self.finished: dict[str, int] = {}

    @property
    def num_unconfirmed(self) -> int:
        return len(self._completions)

    @property
    def num_unheard(self) -> int:
        """Completions that were sent and of which the engine has said nothing yet."""
        return sum(not each.timeline.was_queued for each in self._completions.values())

    def add(self, request: ClientRequest) -> None:
        for completion in request.completions:
            self._completions[completion.request_id] = completion
        self.received += len(request.completions)

    def facts_of(self, output: StepOutput) -> dict[int, RequestFacts]:
        """Facts of every request that the output has an event of."""
        events: Iterable[Iterable[object]] = (
            output.queued,
            output.scheduled,
            output.preempted,
            output.new_tokens,
            output.finished,
        )
        ids = {event.request_id for kind in events for event in kind}  # type: ignore[attr-defined]
        return {
            request_id: self._completions[request_id].request.prepared.facts
            for request_id in ids
            if request_id in self._completions
        }

    def take(self, output: StepOutput) -> tuple[IterationStats, Stopped]:
        """Delivers an output's news.

        Returns:
            What the step brought, and ids by the stop string that ended them: the
            engine must end them, too.
        """
        iteration, now = IterationBuilder(), self._clock.now()
        self._note_clock(output)
        self._note_events(output, iteration)
        self._note_step(output.record)
        ends = {event.request_id: event for event in output.finished}
        touched: dict[ClientRequest, None] = {}
        stopped: Stopped = {}
        for tokens in output.new_tokens:
            if (completion := self._completions.get(tokens.request_id)) is None:
                continue
            self._count_tokens(completion, tokens, iteration, now)
            if completion.is_open:
                touched[completion.request] = None
                end = ends.get(tokens.request_id)
                if completion.take(tokens, end):
                    completion.timeline.ended_at = now
                    if end is None and completion.finish_cause is not None:
                        ids = stopped.setdefault(completion.finish_cause, [])
                        ids.append(tokens.request_id)
        for event in output.finished:
            if (completion := self._completions.get(event.request_id)) is not None:
                if completion.is_open:
                    completion.end(event)
                    touched[completion.request] = None
                self._confirm(completion, event, iteration, now)
        for request in touched:
            request.deliver_news()
        return iteration.build(), stopped

    def abort(self, request: ClientRequest, cause: Aborted) -> list[int]:
        """The client wants no more news; gives the ids that the engine must end."""
        now = self._clock.now()
        ids = []
        for completion in request.completions:
            if completion.is_open:
                completion.close(cause)
                completion.timeline.ended_at = now
                ids.append(completion.request_id)
        return ids

    def end_all(self, cause: Aborted | Failed) -> tuple[IterationStats, list[Finished]]:
        """The engine is gone: every request ends now, with an error for its client."""
        iteration, now = IterationBuilder(), self._clock.now()
        events, open_requests = [], dict[ClientRequest, None]()
        for completion in list(self._completions.values()):
            if completion.is_open:
                completion.close(cause)
                open_requests[completion.request] = None
            event = Finished(
                completion.request_id,
                now,
                completion.finish_cause or cause,
                completion.timeline.output_tokens,
            )
            events.append(event)
            self._confirm(completion, event, iteration, now)
        for request in open_requests:
            request.deliver_error(EngineDeadError(cause.label))
        return iteration.build(), events

    def count_rejected(self) -> None:
        self.received += 1
        self._count_finished(FinishReason.REJECTED)

    @property
    def residue(self) -> int:
        """Received − finished − in flight; 0, or there is a bug."""
        return self.received - sum(self.finished.values()) - len(self._completions)

    def _note_clock(self, output: StepOutput) -> None:
        if output.clock is not None:
            self._wall.set_engine(output.clock)
            self._wall.set_front_end(self._clock)

    def _note_step(self, record: StepRecord | None) -> None:
        """Every request of the step has spent the step's time in the model."""
        if record is None or not self._is_detailed:
            return
        for request_id, _ in record.request_tokens:
            if (known := self._completions.get(request_id)) is not None:
                known.timeline.computed(record.forward_ns, record.execute_ns)

    def _note_events(self, output: StepOutput, iteration: IterationBuilder) -> None:
        iteration.evictions += output.evictions
        for queued in output.queued:
            if (known := self._completions.get(queued.request_id)) is not None:
                known.timeline.queued(queued)
        # Preempted comes first: the step that resumes a request is a later one. Only a
        # load that failed has its request preempted by the end of its own step.
        failed = [each for each in output.preempted if each.failed_external_tokens]
        others = [each for each in output.preempted if not each.failed_external_tokens]
        self._note_preempted(others, iteration)
        for scheduled in output.scheduled:
            iteration.recomputed_tokens += scheduled.recomputed_tokens
            if (known := self._completions.get(scheduled.request_id)) is not None:
                known.timeline.scheduled(scheduled)
        self._note_preempted(failed, iteration)

    def _note_preempted(
        self, events: Iterable[Preempted], iteration: IterationBuilder
    ) -> None:
        for event in events:
            iteration.preemptions += 1
            if (known := self._completions.get(event.request_id)) is not None:
                known.timeline.preempted(event)

    def _count_tokens(
        self,
        completion: Completion,
        event: NewTokens,
        iteration: IterationBuilder,
        now: int,
    ) -> None:
        interval = completion.timeline.new_tokens(event, now)
        if interval is None:
            request = completion.request
            iteration.first_token(
                completion.timeline,
                len(request.prepared.prompt_token_ids),
                is_streamed=request.is_streamed,
                trace_id=request.prepared.facts.trace_id,
            )
        iteration.generated(len(event.token_ids), interval)
        if self._keep_prompts:
            completion.kept_token_ids += event.token_ids
        if event.prompt_logprobs is not None and completion.index == 0:
            completion.request.prompt_logprobs = event.prompt_logprobs or None

    def _confirm(
        self,
        completion: Completion,
        event: Finished,
        iteration: IterationBuilder,
        now: int,
    ) -> None:
        """The engine has ended it: forgets it and counts it, exactly once."""
        del self._completions[completion.request_id]
        request = completion.request
        cause = completion.finish_cause or event.cause
        self._count_finished(cause.reason)
        iteration.finished.append(self._summary(completion, event, cause, now))
        if request.kv_transfer_params is None:
            request.kv_transfer_params = event.kv_transfer_params
        request.num_confirmed += 1
        if request.num_confirmed == len(request.completions):
            longest = max(each.timeline.output_tokens for each in request.completions)
            group = FinishedGroup(n=len(request.completions), max_output_tokens=longest)
            iteration.finished_groups.append(group)

    def _summary(
        self, completion: Completion, event: Finished, cause: FinishCause, now: int
    ) -> FinishedRequest:
        request = completion.request
        prompt = request.prepared.prompt_token_ids
        kept = completion.kept_token_ids
        return completion.timeline.summary(
            event,
            request.prepared.facts,
            request.prepared.params,
            now=now,
            wall=self._wall,
            cause=cause,
            is_streamed=request.is_streamed,
            completion_index=completion.index,
            prompt_token_ids=tuple(prompt) if self._keep_prompts else None,
            output_token_ids=tuple(kept) if self._keep_prompts else None,
        )

    def _count_finished(self, reason: FinishReason) -> None:
        self.finished[reason] = self.finished.get(reason, 0) + 1
