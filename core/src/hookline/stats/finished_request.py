"""The summary of a finished request: its counts, intervals and times."""

from dataclasses import dataclass, field

from hookline.finish_cause import Corrupted, FinishCause
from hookline.request import FinishReason, Origin, RequestFacts
from hookline.sampling_values import SamplingValues
from hookline_registry.former_fields import replaced_by


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """When a request's phases began, in nanoseconds since the epoch.

    For display only: the intervals of `FinishedRequest` come from monotonic clocks.

    Attributes:
        arrived: When the request arrived at the front end.
        queued: Time of QUEUED.
        scheduled: Time of the first SCHEDULED.
        first_token: Time of the first NEW_TOKENS.
        last_token: Time of the last NEW_TOKENS.
        ended: When the request ended for its client.
        preempted: (PREEMPTED, SCHEDULED again or end), `MAX_STALLS` times at most.
        remote_kv: (begin, end) of the first `MAX_STALLS` waits for a KV connector's
            load, without one during which the request ended.
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
"""Maximum number of preemptions and of KV waits whose times a request keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRequest:
    """The summary of a finished request; seconds are None if a phase was not reached.

    Attributes:
        request_id: The engine's id of the request; 0 if it was rejected.
        facts: The request's facts, as the front end completed them.
        cause: Why it ended for its client.
        params: Its sampling parameters.
        prompt_tokens: Number of prompt tokens.
        local_cached_tokens: Prompt tokens from this engine's prefix cache.
        external_cached_tokens: Prompt tokens that a KV connector found in a cache.
        transferred_tokens: Prompt tokens that another instance computed for it.
        stored_prompt_tokens: Prompt tokens that it computed and added to this engine's
            prefix cache; again if they were evicted meanwhile.
        output_tokens: Number of generated tokens.
        preemptions: How often it was preempted.
        recomputed_tokens: Tokens computed again after preemptions.
        queue_seconds: From QUEUED to the first SCHEDULED.
        last_scheduled_seconds: From QUEUED to the most recent SCHEDULED.
        prefill_seconds: From the first SCHEDULED to the first NEW_TOKENS, or to the end
            of an embedding request.
        decode_seconds: From the first NEW_TOKENS to the last.
        inference_seconds: From the first SCHEDULED to the last NEW_TOKENS, or to the
            end of an embedding request.
        last_prefill_seconds: From the most recent SCHEDULED to the next NEW_TOKENS, or
            to the end of an embedding request.
        last_decode_seconds: From these NEW_TOKENS to the last.
        last_inference_seconds: From the most recent SCHEDULED to the last NEW_TOKENS,
            if any came after it, or to the end of an embedding request.
        preempted_seconds: Sum of the times from PREEMPTED to the next SCHEDULED or the
            end; part of `prefill_seconds` and `decode_seconds`.
        ttft_seconds: From arrival to the first token, on the front end's clock.
        e2e_seconds: From arrival to the end, on the front end's clock.
        tpot_seconds: `decode_seconds` per token after the first; None for fewer than
            two tokens.
        preempted_prefill_seconds: Part of `preempted_seconds` before the first token.
        forward_seconds: Time in the model's forward pass, summed over the request's
            steps; None if detailed traces are disabled.
        execute_seconds: Time in the executor, likewise.
        schedule_seconds: Time in the scheduler, likewise.
        times: When its phases began; None if it was rejected.
        is_streamed: Whether the client got tokens as they were generated.
        completion_index: Index among the `n` completions of the client's request.
        prompt_token_ids: The prompt, with `--keep-prompts`; otherwise None.
        output_token_ids: The generated tokens, with `--keep-prompts`; otherwise None.
        draft_tokens: Number of draft tokens verified for it.
        accepted_tokens: Number of `draft_tokens` that were accepted.
        preparation_seconds: From arrival to its sending to the engine, on the front
            end's clock.
        is_orphaned: Whether its front end has ended before, so that only its id, cause
            and output tokens are known.
        decodes_elsewhere: Whether another instance continues its prompt, and counts the
            client's request.
        corrupted_by: Whose output was corrupted, if the request was served anyway.
        has_tokens: Whether its numbers of tokens are known.
    """

    request_id: int
    facts: RequestFacts
    cause: FinishCause
    params: SamplingValues = field(default_factory=SamplingValues)
    prompt_tokens: int = 0
    local_cached_tokens: int = 0
    external_cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    queue_seconds: float | None = None
    prefill_seconds: float | None = None
    decode_seconds: float | None = None
    inference_seconds: float | None = None
    preempted_seconds: float = 0.0
    ttft_seconds: float | None = None
    e2e_seconds: float = 0.0
    tpot_seconds: float | None = None
    preempted_prefill_seconds: float = 0.0
    forward_seconds: float | None = None
    execute_seconds: float | None = None
    schedule_seconds: float | None = None
    times: RequestTimes | None = None
    is_streamed: bool = False
    completion_index: int = 0
    prompt_token_ids: tuple[int, ...] | None = None
    output_token_ids: tuple[int, ...] | None = None
    draft_tokens: int = 0
    accepted_tokens: int = 0
    preparation_seconds: float | None = None
    stored_prompt_tokens: int = 0
    last_scheduled_seconds: float | None = None
    last_prefill_seconds: float | None = None
    last_decode_seconds: float | None = None
    last_inference_seconds: float | None = None
    is_orphaned: bool = False
    transferred_tokens: int = 0
    decodes_elsewhere: bool = False
    corrupted_by: Origin | None = None
    has_tokens: bool = True

    slo_misses = replaced_by("hookline_metrics.slo:misses_of")
    is_slo_judged = replaced_by("hookline_metrics.slo:is_judged")

    @property
    def is_measured(self) -> bool:
        """Whether it reached an engine, and its tokens and times are known."""
        return self.reason is not FinishReason.REJECTED and not self.is_orphaned

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that nobody had to compute for it."""
        return self.local_cached_tokens + self.external_cached_tokens

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that this engine computed, once it has the first token."""
        return self.prompt_tokens - self.cached_tokens - self.transferred_tokens

    @property
    def corruption(self) -> Origin | None:
        """Whose output for it was corrupted, whether it was served or ended by that."""
        if isinstance(self.cause, Corrupted):
            return self.cause.origin
        return self.corrupted_by

    @property
    def reason(self) -> FinishReason:
        """The coarse reason of the end."""
        return self.cause.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedGroup:
    """A client's request, all of whose `n` completions have ended.

    Attributes:
        requests: Its completions by their index, at least one.
    """

    requests: tuple[FinishedRequest, ...]

    @property
    def n(self) -> int:
        """Number of completions."""
        return len(self.requests)

    @property
    def max_output_tokens(self) -> int:
        """Length of the longest completion in tokens."""
        return max(request.output_tokens for request in self.requests)
