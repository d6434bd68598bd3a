"""Account of one request in the accounting."""

import dataclasses

from hookline.clock import NANOSECONDS
from hookline.events import Finished
from hookline.finish_cause import FinishCause, Rejected
from hookline.frontend.timeline import ClockMapping, Timeline, seconds_between
from hookline.outputs import RequestMetrics
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_values import SamplingValues
from hookline.stats.finished_request import FinishedGroup, FinishedRequest


class RequestGroup:
    """The completions of one client request.

    Attributes:
        size: Number of completions.
        ended: Those that the engine has ended, in the order of their ends.
    """

    __slots__ = ("ended", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.ended: list[FinishedRequest] = []

    @property
    def is_over(self) -> bool:
        return len(self.ended) == self.size

    def summary(self) -> FinishedGroup:
        """The summary of the whole request once it is over, for observers."""
        ordered = sorted(self.ended, key=lambda each: each.completion_index)
        return FinishedGroup(requests=tuple(ordered))


class RequestAccount:
    """A request from its admission until the engine has ended it.

    Attributes:
        request: The request, with the id and the index of its first completion.
        request_id: Its id in the engine's events.
        index: Index among the completions of the client's request.
        arrived_at: When the client's request arrived, in ns on the front end's clock.
        prepared_at: When it was ready to be sent to the engine, in ns likewise.
        is_streamed: Whether the client gets tokens as they are generated.
        timeline: Its times and token counts.
        group: The completions of the client's request.
        cause: Why it ended for its client; None while the client waits.
        ended_at: When it ended for its client, in ns on the front end's clock.
        output_token_ids: Generated tokens; None unless they are kept for observers.
        had_schedule: Whether an engine that has ended had scheduled it.
        had_token: Whether an engine that has ended had generated a token of it.
        is_moved: Whether its engine does not count it as received, because another one
            has.
    """

    __slots__ = (
        "arrived_at",
        "cause",
        "ended_at",
        "group",
        "had_schedule",
        "had_token",
        "index",
        "is_moved",
        "is_streamed",
        "output_token_ids",
        "prepared_at",
        "request",
        "request_id",
        "timeline",
    )

    def __init__(
        self,
        request: GenerateRequest,
        request_id: int,
        group: RequestGroup,
        *,
        index: int,
        arrived_at: int,
        prepared_at: int,
        is_streamed: bool,
        keeps_tokens: bool,
    ) -> None:
        self.request = request
        self.request_id = request_id
        self.index = index
        self.arrived_at = arrived_at
        self.prepared_at = prepared_at
        self.is_streamed = is_streamed
        self.timeline = Timeline(arrived_at)
        self.group = group
        self.cause: FinishCause | None = None
        self.ended_at: int | None = None
        self.output_token_ids: list[int] | None = [] if keeps_tokens else None
        self.had_schedule = False
        self.had_token = False
        self.is_moved = False

    def restart(self) -> None:
        """Forgets what an engine did that has ended; the arrival stays."""
        self.is_moved = False
        self.had_schedule = self.had_schedule or self.timeline.was_scheduled
        self.had_token = self.had_token or self.timeline.output_tokens > 0
        self.timeline = Timeline(self.arrived_at)
        if self.output_token_ids is not None:
            self.output_token_ids = []

    def record_end(self, cause: FinishCause, at: int) -> None:
        """Ends the request for its client; later calls change nothing."""
        if self.cause is None:
            self.cause, self.ended_at = cause, at

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def e2e_seconds(self) -> float | None:
        return seconds_between(self.arrived_at, self.ended_at)

    def metrics(self, wall: ClockMapping) -> RequestMetrics:
        """The metrics of an ended request for its client."""
        timeline = self.timeline
        return RequestMetrics(
            arrival_time=wall.of_front_end(timeline.arrived_at) / NANOSECONDS,
            queue_seconds=timeline.queue_seconds,
            prefill_seconds=timeline.prefill_seconds,
            decode_seconds=timeline.decode_seconds,
            inference_seconds=timeline.inference_seconds,
            ttft_seconds=timeline.ttft_seconds,
            tpot_seconds=timeline.tpot_seconds,
            e2e_seconds=self.e2e_seconds or 0.0,
            preemptions=timeline.preemptions.count,
            draft_tokens=timeline.draft_tokens,
            steps_by_accepted=tuple(timeline.steps_by_accepted),
        )

    def summary(self, wall: ClockMapping) -> FinishedRequest:
        """The summary of an ended request for observers."""
        assert self.cause is not None
        assert self.ended_at is not None
        return self._summary(self.cause, wall, self.ended_at)

    def _summary(
        self, cause: FinishCause, wall: ClockMapping, ended_at: int
    ) -> FinishedRequest:
        request, timeline = self.request, self.timeline
        preemptions, output = timeline.preemptions, self.output_token_ids
        return FinishedRequest(
            request_id=self.request_id,
            facts=request.facts,
            cause=cause,
            params=request.params,
            prompt_tokens=self.prompt_tokens,
            local_cached_tokens=timeline.local_cached_tokens,
            external_cached_tokens=timeline.external_cached_tokens,
            stored_prompt_tokens=timeline.stored_prompt_tokens,
            output_tokens=timeline.output_tokens,
            draft_tokens=timeline.draft_tokens,
            accepted_tokens=timeline.accepted_tokens,
            preemptions=preemptions.count,
            recomputed_tokens=preemptions.recomputed_tokens,
            preparation_seconds=seconds_between(self.arrived_at, self.prepared_at),
            queue_seconds=timeline.queue_seconds,
            last_scheduled_seconds=timeline.last_scheduled_seconds,
            prefill_seconds=timeline.prefill_seconds,
            decode_seconds=timeline.decode_seconds,
            inference_seconds=timeline.inference_seconds,
            preempted_seconds=preemptions.total / NANOSECONDS,
            preempted_prefill_seconds=preemptions.before_first_token / NANOSECONDS,
            ttft_seconds=timeline.ttft_seconds,
            e2e_seconds=self.e2e_seconds or 0.0,
            tpot_seconds=timeline.tpot_seconds,
            forward_seconds=seconds_between(0, timeline.forward_ns),
            execute_seconds=seconds_between(0, timeline.execute_ns),
            schedule_seconds=seconds_between(0, timeline.schedule_ns),
            times=timeline.times(wall, ended_at),
            is_streamed=self.is_streamed,
            completion_index=self.index,
            prompt_token_ids=None if output is None else (*request.prompt_token_ids,),
            output_token_ids=None if output is None else (*output,),
        )


def rejected_request(facts: RequestFacts, cause: Rejected) -> FinishedRequest:
    """The summary of a request that reached no engine: no id, no tokens, no times."""
    return _without_times(0, facts, cause, 0)


def orphaned_request(event: Finished) -> FinishedRequest:
    """The summary of a request whose front end has ended, and with it what it knew."""
    request = _without_times(
        event.request_id, RequestFacts(), event.cause, event.output_tokens
    )
    return dataclasses.replace(request, is_orphaned=True)


def _without_times(
    request_id: int, facts: RequestFacts, cause: FinishCause, output_tokens: int
) -> FinishedRequest:
    return FinishedRequest(
        request_id=request_id,
        facts=facts,
        cause=cause,
        params=SamplingValues(),
        prompt_tokens=0,
        local_cached_tokens=0,
        external_cached_tokens=0,
        output_tokens=output_tokens,
        preemptions=0,
        recomputed_tokens=0,
        queue_seconds=None,
        prefill_seconds=None,
        decode_seconds=None,
        inference_seconds=None,
        preempted_seconds=0.0,
        ttft_seconds=None,
        e2e_seconds=0.0,
        tpot_seconds=None,
    )
