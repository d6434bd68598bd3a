"""One request's times and counts, as the engine's events tell them."""

import dataclasses

from hookline.clock import NANOSECONDS
from hookline.events import Finished, NewTokens, Preempted, Queued, Scheduled
from hookline.finish_cause import FinishCause
from hookline.frontend.wall_time import WallTime
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.slo import judge
from hookline.stats import MAX_STALLS, FinishedRequest, RequestTimes


class Timeline:
    """From arrival to end; engine times and front-end times are never mixed.

    Attributes:
        arrived_at: Front end's clock.
        ended_at: Front end's clock; when the client's view of the request ended.
        local_cached_tokens: At first admission.
        external_cached_tokens: At first admission.
        output_tokens: Tokens so far.
        draft_tokens: Draft tokens verified so far.
        accepted_tokens: Of these, accepted.
        forward_ns: In the model, where that is measured for each request.
        execute_ns: In the executor, likewise.
    """

    __slots__ = (
        "_first_scheduled",
        "_first_token",
        "_first_token_here",
        "_last_token",
        "_preempted",
        "_preempted_at",
        "_preempted_prefill",
        "_preemptions",
        "_prompt_tokens",
        "_queued",
        "_recompute_until",
        "_recomputed",
        "_remote_kv",
        "_stalls",
        "accepted_tokens",
        "arrived_at",
        "draft_tokens",
        "ended_at",
        "execute_ns",
        "external_cached_tokens",
        "forward_ns",
        "local_cached_tokens",
        "output_tokens",
    )

    def __init__(self, arrived_at: int, prompt_tokens: int) -> None:
        self.arrived_at = arrived_at
        self.ended_at: int | None = None
        self.local_cached_tokens = 0
        self.external_cached_tokens = 0
        self.output_tokens = 0
        self.draft_tokens = 0
        self.accepted_tokens = 0
        self.forward_ns: int | None = None
        self.execute_ns: int | None = None
        self._prompt_tokens = prompt_tokens
        self._queued: int | None = None
        self._first_scheduled: int | None = None
        self._first_token: int | None = None
        self._first_token_here: int | None = None
        self._last_token: int | None = None
        self._preempted_at: int | None = None
        self._preempted = 0
        self._preempted_prefill = 0
        self._preemptions = 0
        self._stalls: list[tuple[int, int]] = []
        self._remote_kv: list[tuple[int, int]] = []
        self._recomputed = 0
        self._recompute_until = 0

    def queued(self, event: Queued) -> None:
        self._queued = event.at

    def scheduled(self, event: Scheduled) -> None:
        self._recomputed += event.recomputed_tokens
        cached = event.local_cached_tokens + event.external_cached_tokens
        self._recompute_until = cached + event.recomputed_tokens
        if self._first_scheduled is None:
            self._first_scheduled = event.at
            self.local_cached_tokens = event.local_cached_tokens
            self.external_cached_tokens = event.external_cached_tokens
        if event.remote_kv is not None and len(self._remote_kv) < MAX_STALLS:
            self._remote_kv.append(event.remote_kv)
        self._end_stall(event.at)

    def preempted(self, event: Preempted) -> None:
        if not self._preemptions:  # else it is not of the first admission
            self.external_cached_tokens -= event.failed_external_tokens
        self._preemptions += 1
        self._preempted_at = event.at
        # What was to be computed again and was not is announced anew at the resume.
        self._recomputed -= max(0, self._recompute_until - event.computed_tokens)

    def computed(self, forward_ns: int, execute_ns: int) -> None:
        """It took part in a step that took so long."""
        self.forward_ns = (self.forward_ns or 0) + forward_ns
        self.execute_ns = (self.execute_ns or 0) + execute_ns

    def new_tokens(self, event: NewTokens, now: int) -> int | None:
        """Notes tokens; gives the ns since the last ones, None for the first."""
        previous, self._last_token = self._last_token, event.at
        self.output_tokens += len(event.token_ids)
        self.draft_tokens += event.draft_tokens
        self.accepted_tokens += event.accepted_tokens
        if previous is None:
            self._first_token = event.at
            self._first_token_here = now
            if self._preempted_at is not None:  # while the token was under way
                self._preempted_prefill += event.at - self._preempted_at
            return None
        return event.at - previous

    @property
    def was_queued(self) -> bool:
        """Whether the engine has told that it took the request in."""
        return self._queued is not None

    @property
    def ttft_seconds(self) -> float | None:
        return _seconds(self.arrived_at, self._first_token_here)

    def summary(
        self,
        event: Finished,
        facts: RequestFacts,
        params: SamplingParams,
        *,
        now: int,
        wall: WallTime,
        cause: FinishCause,
        is_streamed: bool,
        completion_index: int,
        prompt_token_ids: tuple[int, ...] | None = None,
        output_token_ids: tuple[int, ...] | None = None,
    ) -> FinishedRequest:
        """Sums the request up, at the FINISHED that confirms its end."""
        self._end_stall(event.at)  # it may have ended while it was preempted
        decode = _seconds(self._first_token, self._last_token)
        later_tokens = self.output_tokens - 1
        request = FinishedRequest(
            request_id=event.request_id,
            facts=facts,
            cause=cause,
            params=params,
            prompt_tokens=self._prompt_tokens,
            local_cached_tokens=self.local_cached_tokens,
            external_cached_tokens=self.external_cached_tokens,
            output_tokens=self.output_tokens,
            draft_tokens=self.draft_tokens,
            accepted_tokens=self.accepted_tokens,
            preemptions=self._preemptions,
            recomputed_tokens=self._recomputed,
            queue_seconds=_seconds(self._queued, self._first_scheduled),
            prefill_seconds=_seconds(self._first_scheduled, self._first_token),
            decode_seconds=decode,
            inference_seconds=_seconds(self._first_scheduled, self._last_token),
            preempted_seconds=self._preempted / NANOSECONDS,
            preempted_prefill_seconds=self._preempted_prefill / NANOSECONDS,
            ttft_seconds=self.ttft_seconds,
            e2e_seconds=((self.ended_at or now) - self.arrived_at) / NANOSECONDS,
            tpot_seconds=decode / later_tokens
            if decode is not None and later_tokens > 0
            else None,
            forward_seconds=_seconds(0, self.forward_ns),
            execute_seconds=_seconds(0, self.execute_ns),
            times=self._times(wall, self.ended_at or now),
            is_streamed=is_streamed,
            completion_index=completion_index,
            prompt_token_ids=prompt_token_ids,
            output_token_ids=output_token_ids,
        )
        return request if facts.slo is None else _judged(request)

    def _end_stall(self, at: int) -> None:
        if self._preempted_at is None:
            return
        self._preempted += at - self._preempted_at
        if self._first_token is None:
            self._preempted_prefill += at - self._preempted_at
        if len(self._stalls) < MAX_STALLS:
            self._stalls.append((self._preempted_at, at))
        self._preempted_at = None

    def _times(self, wall: WallTime, ended_at: int) -> RequestTimes:
        engine = wall.of_engine
        return RequestTimes(
            arrived=wall.of_front_end(self.arrived_at),
            queued=engine(self._queued),
            scheduled=engine(self._first_scheduled),
            first_token=engine(self._first_token),
            last_token=engine(self._last_token),
            ended=wall.of_front_end(ended_at),
            preempted=wall.of_engine_spans(self._stalls),
            remote_kv=wall.of_engine_spans(self._remote_kv),
        )


def _seconds(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else (end - start) / NANOSECONDS


def _judged(request: FinishedRequest) -> FinishedRequest:
    assert request.facts.slo is not None
    misses = judge(request.facts.slo, request)
    if misses is None:
        return request
    return dataclasses.replace(request, slo_misses=misses, is_slo_judged=True)
