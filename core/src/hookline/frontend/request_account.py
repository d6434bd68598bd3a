"""Accounts of a client's request and of its completions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS
from hookline.config.extensions import KV_TRANSFER
from hookline.events import Finished
from hookline.finish_cause import FinishCause
from hookline.frontend.timeline import ClockMapping, Timeline, seconds_between
from hookline.outputs import RequestMetrics
from hookline.request import GenerateRequest, RequestFacts
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstToken


@dataclass(slots=True, eq=False, repr=False)
class RequestGroup:
    """One client's request.

    Attributes:
        request: The request, with the id and the index of its first completion.
        size: Number of its completions.
        arrived_at: When it arrived, in ns on the front end's clock.
        prepared_at: When it was ready to be sent to the engine, in ns likewise.
        is_streamed: Whether the client gets tokens as they are generated.
        ended: Completions that the engine has ended, in the order of their ends.
    """

    request: GenerateRequest
    size: int
    arrived_at: int
    prepared_at: int
    is_streamed: bool
    ended: list[FinishedRequest] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def decodes_elsewhere(self) -> bool:
        """Whether another instance continues its prompt."""
        asked = self.request.sections.get(KV_TRANSFER)
        if asked is None:
            return False  # asking for its class takes longer
        return isinstance(asked, Mapping) and bool(asked.get("do_remote_decode"))

    def finished(self) -> FinishedGroup | None:
        """The summary of the whole request once it is over, for observers."""
        if len(self.ended) < self.size:
            return None
        ordered = sorted(self.ended, key=lambda each: each.completion_index)
        return FinishedGroup(requests=tuple(ordered))


@dataclass(slots=True, eq=False, repr=False)
class RequestAccount:
    """A completion from its admission until the engine has ended it.

    Attributes:
        group: The client's request, whose completion it is.
        request_id: Its id in the engine's events.
        index: Index among the completions of the client's request.
        output_token_ids: Generated tokens; None unless they are kept for observers.
        timeline: What its engine does with it.
        cause: Why it ended for its client; None while the client waits.
        ended_at: When it ended for its client, in ns on the front end's clock.
        had_schedule: Whether an engine that has ended had scheduled it.
        had_token: Whether an engine that has ended had generated a token of it.
        is_moved: Whether it already counts as received by an engine that has ended, so
            that its present one does not count it.
    """

    group: RequestGroup
    request_id: int
    index: int
    output_token_ids: list[int] | None
    timeline: Timeline = field(default_factory=Timeline)
    cause: FinishCause | None = None
    ended_at: int | None = None
    had_schedule: bool = False
    had_token: bool = False
    is_moved: bool = False

    def restart(self) -> None:
        """Forgets what an engine did that has ended; the arrival stays."""
        self.is_moved = True
        self.had_schedule = self.had_schedule or self.timeline.was_scheduled
        self.had_token = self.had_token or self.timeline.output_tokens > 0
        self.timeline = Timeline()
        if self.output_token_ids is not None:
            self.output_token_ids = []

    def record_end(self, cause: FinishCause, at: int) -> None:
        """Ends the request for its client; later calls change nothing."""
        if self.cause is None:
            self.cause, self.ended_at = cause, at

    @property
    def ttft_seconds(self) -> float | None:
        received = self.timeline.first_token_received
        return seconds_between(self.group.arrived_at, received)

    def first_token(self, seconds: float) -> FirstToken:
        """The first token, for which the client waited `seconds`."""
        facts = self.group.request.facts
        return FirstToken(
            seconds=seconds,
            prefill_seconds=self.timeline.prefill_seconds,
            is_streamed=self.group.is_streamed,
            decodes_elsewhere=self.group.decodes_elsewhere,
            trace_id=facts.trace_id,
            span_id=facts.span_id,
        )

    @property
    def e2e_seconds(self) -> float | None:
        return seconds_between(self.group.arrived_at, self.ended_at)

    def metrics(self, wall: ClockMapping) -> RequestMetrics:
        """The metrics of an ended request for its client."""
        timeline = self.timeline
        return RequestMetrics(
            arrival_time=wall.of_front_end(self.group.arrived_at) / NANOSECONDS,
            queue_seconds=timeline.queue_seconds,
            prefill_seconds=timeline.prefill_seconds,
            decode_seconds=timeline.decode_seconds,
            inference_seconds=timeline.inference_seconds,
            ttft_seconds=self.ttft_seconds,
            tpot_seconds=timeline.tpot_seconds,
            e2e_seconds=self.e2e_seconds or 0.0,
            preemptions=timeline.preemptions.count,
            draft_tokens=timeline.draft_tokens,
            steps_by_accepted=tuple(timeline.steps_by_accepted),
        )

    def summary(self, wall: ClockMapping) -> FinishedRequest:
        """Returns the summary of an ended request for observers."""
        cause, ended_at = self.cause, self.ended_at
        assert cause is not None
        assert ended_at is not None
        group, timeline, output = self.group, self.timeline, self.output_token_ids
        request, preemptions = group.request, timeline.preemptions
        arrived_at, last = group.arrived_at, timeline.since_last_scheduled
        return FinishedRequest(
            request_id=self.request_id,
            facts=request.facts,
            cause=cause,
            params=request.params,
            prompt_tokens=group.prompt_tokens,
            local_cached_tokens=timeline.local_cached_tokens,
            external_cached_tokens=timeline.external_cached_tokens,
            transferred_tokens=timeline.transferred_tokens,
            decodes_elsewhere=group.decodes_elsewhere,
            stored_prompt_tokens=timeline.stored_prompt_tokens,
            output_tokens=timeline.output_tokens,
            draft_tokens=timeline.draft_tokens,
            accepted_tokens=timeline.accepted_tokens,
            preemptions=preemptions.count,
            recomputed_tokens=preemptions.recomputed_tokens,
            preparation_seconds=seconds_between(arrived_at, group.prepared_at),
            queue_seconds=timeline.queue_seconds,
            last_scheduled_seconds=timeline.last_scheduled_seconds,
            prefill_seconds=timeline.prefill_seconds,
            decode_seconds=timeline.decode_seconds,
            inference_seconds=timeline.inference_seconds,
            last_prefill_seconds=last[0],
            last_decode_seconds=last[1],
            last_inference_seconds=last[2],
            preempted_seconds=preemptions.total / NANOSECONDS,
            preempted_prefill_seconds=preemptions.before_first_token / NANOSECONDS,
            ttft_seconds=self.ttft_seconds,
            e2e_seconds=self.e2e_seconds or 0.0,
            tpot_seconds=timeline.tpot_seconds,
            forward_seconds=seconds_between(0, timeline.forward_ns),
            execute_seconds=seconds_between(0, timeline.execute_ns),
            schedule_seconds=seconds_between(0, timeline.schedule_ns),
            times=timeline.times(wall, arrived_at=arrived_at, ended_at=ended_at),
            is_streamed=group.is_streamed,
            corrupted_by=timeline.corrupted_by,
            completion_index=self.index,
            prompt_token_ids=None if output is None else (*request.prompt_token_ids,),
            output_token_ids=None if output is None else (*output,),
        )


def orphaned_request(event: Finished) -> FinishedRequest:
    """The summary of a request whose front end has ended, and with it what it knew."""
    return FinishedRequest(
        request_id=event.request_id,
        facts=RequestFacts(),
        cause=event.cause,
        output_tokens=event.output_tokens,
        is_orphaned=True,
    )
