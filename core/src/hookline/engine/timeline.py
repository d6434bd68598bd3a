"""One request's times and counts, as the engine's events tell them (design §6)."""

from hookline.clock import NANOSECONDS
from hookline.events import Finished, NewTokens, Preempted, Queued, Scheduled
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.stats import FinishedRequest


class Timeline:
    """From arrival to end; engine times and front-end times are never mixed.

    Attributes:
        arrived_at: Front end's clock.
        ended_at: Front end's clock; when the client's view of the request ended.
        local_cached_tokens: At first admission.
        external_cached_tokens: At first admission.
        output_tokens: Tokens so far.
    """

    __slots__ = (
        "_first_scheduled",
        "_first_token",
        "_first_token_here",
        "_last_token",
        "_preempted",
        "_preempted_at",
        "_preemptions",
        "_prompt_tokens",
        "_queued",
        "_recompute_until",
        "_recomputed",
        "arrived_at",
        "ended_at",
        "external_cached_tokens",
        "local_cached_tokens",
        "output_tokens",
    )

    def __init__(self, arrived_at: int, prompt_tokens: int) -> None:
        self.arrived_at = arrived_at
        self.ended_at: int | None = None
        self.local_cached_tokens = 0
        self.external_cached_tokens = 0
        self.output_tokens = 0
        self._prompt_tokens = prompt_tokens
        self._queued: int | None = None
        self._first_scheduled: int | None = None
        self._first_token: int | None = None
        self._first_token_here: int | None = None
        self._last_token: int | None = None
        self._preempted_at: int | None = None
        self._preempted = 0
        self._preemptions = 0
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
        if self._preempted_at is not None:
            self._preempted += event.at - self._preempted_at
            self._preempted_at = None

    def preempted(self, event: Preempted) -> None:
        self._preemptions += 1
        self._preempted_at = event.at
        # What was to be computed again and was not is announced anew at the resume.
        self._recomputed -= max(0, self._recompute_until - event.computed_tokens)

    def new_tokens(self, event: NewTokens, now: int) -> float | None:
        """Notes tokens; gives the seconds since the last ones, None for the first."""
        previous, self._last_token = self._last_token, event.at
        self.output_tokens += len(event.token_ids)
        if previous is None:
            self._first_token = event.at
            self._first_token_here = now
            return None
        return (event.at - previous) / NANOSECONDS

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
        reason: FinishReason,
        cause: str,
    ) -> FinishedRequest:
        """Sums the request up, at the FINISHED that confirms its end."""
        if self._preempted_at is not None:  # it ended while it was preempted
            self._preempted += event.at - self._preempted_at
        decode = _seconds(self._first_token, self._last_token)
        later_tokens = self.output_tokens - 1
        return FinishedRequest(
            request_id=event.request_id,
            facts=facts,
            reason=reason,
            cause=cause,
            params=params,
            prompt_tokens=self._prompt_tokens,
            local_cached_tokens=self.local_cached_tokens,
            external_cached_tokens=self.external_cached_tokens,
            output_tokens=self.output_tokens,
            preemptions=self._preemptions,
            recomputed_tokens=self._recomputed,
            queue_seconds=_seconds(self._queued, self._first_scheduled),
            prefill_seconds=_seconds(self._first_scheduled, self._first_token),
            decode_seconds=decode,
            inference_seconds=_seconds(self._first_scheduled, self._last_token),
            preempted_seconds=self._preempted / NANOSECONDS,
            ttft_seconds=self.ttft_seconds,
            e2e_seconds=((self.ended_at or now) - self.arrived_at) / NANOSECONDS,
            tpot_seconds=decode / later_tokens
            if decode is not None and later_tokens > 0
            else None,
        )


def _seconds(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else (end - start) / NANOSECONDS
