"""The summary of a finished request: its counts, intervals and times."""

from dataclasses import dataclass

from hookline.finish_cause import FinishCause
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.slo import SloMiss


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """When a request's phases began, in nanoseconds since the epoch.

    For placing spans on a time line only: durations come from monotonic clocks and
    stand in `FinishedRequest`.

    Attributes:
        arrived: At the front end.
        queued: QUEUED.
        scheduled: First SCHEDULED.
        first_token: First NEW_TOKENS.
        last_token: Last NEW_TOKENS.
        ended: For the client.
        preempted: (PREEMPTED, SCHEDULED again or end), the first `MAX_STALLS` of them.
        remote_kv: (begin, end) of waiting for loads of a KV connector, likewise; of a
            request that ended meanwhile there is none.
    """

    arrived: int
    queued: int | None = None
    scheduled: int | None = None
    first_token: int | None = None
    last_token: int | None = None
    ended: int = 0
    preempted: tuple[tuple[int, int], ...] = ()
    remote_kv: tuple[tuple[int, int], ...] = ()


MAX_STALLS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRequest:
    """One ended request, summed up; seconds are None where the phase was not reached.

    Attributes:
        request_id: Internal id.
        facts: Who asked.
        cause: Why it ended, for its client.
        params: What was asked for.
        prompt_tokens: Length of the prompt.
        local_cached_tokens: Prompt tokens from this engine's prefix cache.
        external_cached_tokens: Prompt tokens from a KV connector.
        output_tokens: Tokens generated.
        preemptions: How often it was preempted.
        recomputed_tokens: Tokens computed again because of that.
        queue_seconds: First SCHEDULED − QUEUED.
        prefill_seconds: First NEW_TOKENS − first SCHEDULED.
        decode_seconds: Last NEW_TOKENS − first NEW_TOKENS.
        inference_seconds: Last NEW_TOKENS − first SCHEDULED.
        preempted_seconds: Σ (re-SCHEDULED − PREEMPTED), part of the two above.
        ttft_seconds: First token − arrival, on the front end's clock.
        e2e_seconds: End − arrival, on the front end's clock.
        tpot_seconds: decode ÷ (n − 1); None for fewer than two tokens.
        preempted_prefill_seconds: The part of `preempted_seconds` before the first
            token.
        forward_seconds: In the model's forward pass, summed over its steps; None
            unless detailed traces ask for it.
        execute_seconds: In the executor, likewise.
        times: When its phases began; None for one that was rejected.
        is_streamed: Whether the client got its tokens as they came.
        completion_index: Which of a client's n completions.
        slo_misses: Objectives that it missed.
        prompt_token_ids: None unless prompts are kept.
        output_token_ids: Likewise.
        is_slo_judged: Whether it had objectives and lived long enough to be judged.
        draft_tokens: Draft tokens verified for it.
        accepted_tokens: Of these, accepted and part of its output.
    """

    request_id: int
    facts: RequestFacts
    cause: FinishCause
    params: SamplingParams
    prompt_tokens: int
    local_cached_tokens: int
    external_cached_tokens: int
    output_tokens: int
    preemptions: int
    recomputed_tokens: int
    queue_seconds: float | None
    prefill_seconds: float | None
    decode_seconds: float | None
    inference_seconds: float | None
    preempted_seconds: float
    ttft_seconds: float | None
    e2e_seconds: float
    tpot_seconds: float | None
    preempted_prefill_seconds: float = 0.0
    forward_seconds: float | None = None
    execute_seconds: float | None = None
    times: RequestTimes | None = None
    is_streamed: bool = False
    completion_index: int = 0
    slo_misses: tuple[SloMiss, ...] = ()
    is_slo_judged: bool = False
    prompt_token_ids: tuple[int, ...] | None = None
    output_token_ids: tuple[int, ...] | None = None
    draft_tokens: int = 0
    accepted_tokens: int = 0

    @property
    def reason(self) -> FinishReason:
        """The coarse reason of the end."""
        return self.cause.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedGroup:
    """A client's whole request: its `n` completions have all ended.

    Attributes:
        n: How many they were.
        max_output_tokens: Length of the longest.
    """

    n: int
    max_output_tokens: int
