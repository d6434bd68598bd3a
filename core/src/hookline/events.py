"""What the engine tells about itself: one batch of typed events a step.

Times are monotonic nanoseconds of the engine's process; subtract only times that come
from the same process. The front end turns these into the hooks of `hookspecs`.
"""

import msgspec

from hookline.finish_cause import FinishCause
from hookline.request import FinishReason, TokenLogprobs
from hookline.stats import BlockEviction, SchedulerStats


class Queued(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """QUEUED: the engine took the request in."""

    request_id: int
    at: int
    prompt_tokens: int


class Scheduled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """SCHEDULED: the request was admitted to the running batch, first or again.

    Attributes:
        local_cached_tokens: Tokens found in this engine's prefix cache.
        external_cached_tokens: Tokens brought by a KV connector.
        recomputed_tokens: Tokens that had been computed before and must be again.
        is_resumed: Whether this follows a preemption.
        remote_kv: (begin, end) of the time in which it waited for a KV connector's load
            since it was queued or preempted, or None.
    """

    request_id: int
    at: int
    local_cached_tokens: int
    external_cached_tokens: int
    recomputed_tokens: int
    is_resumed: bool
    remote_kv: tuple[int, int] | None = None


class Preempted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """PREEMPTED: the request lost its blocks and waits again.

    Attributes:
        computed_tokens: Tokens whose K and V it gave up.
        failed_external_tokens: Of these, tokens that a KV connector should have brought
            and did not; 0 unless that is why.
    """

    request_id: int
    at: int
    computed_tokens: int
    failed_external_tokens: int = 0


class NewTokens(msgspec.Struct, frozen=True, array_like=True):
    """NEW_TOKENS: the step brought the request so many tokens.

    Attributes:
        token_ids: Sampled or accepted, in order.
        logprobs: One entry a token where asked for, else None.
        prompt_logprobs: For the prompt's positions from the second on, sent with the
            first token where asked for.
        draft_tokens: Draft tokens verified for it in this step.
        accepted_tokens: Of these, accepted and part of `token_ids`.
    """

    request_id: int
    at: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[TokenLogprobs] | None = None
    draft_tokens: int = 0
    accepted_tokens: int = 0


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """FINISHED: the request ended and its blocks were freed.

    Attributes:
        cause: Why it ended.
        output_tokens: Number of tokens that it generated.
        kv_transfer_params: Parameters from the KV connector for the client, or None.
    """

    request_id: int
    at: int
    cause: FinishCause
    output_tokens: int
    kv_transfer_params: dict[str, object] | None = None

    @property
    def reason(self) -> FinishReason:
        """The coarse reason of the end."""
        return self.cause.reason


class BlocksStored(msgspec.Struct, frozen=True, array_like=True, tag="stored"):
    """Full blocks can be found in the prefix cache: a run of one request's blocks.

    Attributes:
        block_hashes: Theirs, chained: each stands for all tokens up to its end.
        parent_hash: Of the block before the first; None if that begins a request.
        token_ids: Of all these blocks.
        lora: Adapter that their content depends on.
        cache_salt: What else it depends on: only requests with the same find them.
    """

    block_hashes: list[bytes]
    parent_hash: bytes | None
    token_ids: list[int]
    lora: str | None = None
    cache_salt: str | None = None


class BlocksRemoved(msgspec.Struct, frozen=True, array_like=True, tag="removed"):
    """Blocks were evicted from the prefix cache.

    Attributes:
        block_hashes: Theirs.
    """

    block_hashes: list[bytes]


class CacheCleared(msgspec.Struct, frozen=True, array_like=True, tag="cleared"):
    """No block can be found any more: the prefix cache was reset."""


CacheEvent = BlocksStored | BlocksRemoved | CacheCleared


class CacheChanges(msgspec.Struct, frozen=True, array_like=True):
    """What the prefix cache gained and lost since it was last told.

    Attributes:
        sequence: Counts from 1; none is left out.
        events: In order.
    """

    sequence: int
    events: list[CacheEvent]


class StepRecord(msgspec.Struct, frozen=True, array_like=True):
    """One step of the engine.

    Steps are executed, and told, one after the other. Where they overlap
    (`async_scheduling`) a step is scheduled while the one before it is executed, so it
    starts before that one ends; `waited_ns` and `execute_ns` tell the two apart.

    Attributes:
        step: Counts from 1.
        started_at: Before scheduling.
        scheduled_at: Between scheduling and executing.
        executed_at: Between executing and updating: its result was taken.
        ended_at: After updating.
        prefill_requests: Requests that computed prompt (or recomputed) tokens.
        prefill_tokens: Theirs.
        decode_requests: Requests that computed one new token, and perhaps drafts.
        decode_tokens: Theirs, drafts included.
        request_tokens: (request id, tokens computed) for each scheduled request.
        draft_tokens: Draft tokens verified.
        accepted_tokens: Of these, accepted and given to their requests.
        context_tokens: Tokens in the cache that the scheduled requests read.
        attention_pairs: Pairs of a computed token and one that it attends to.
        sampled_requests: Requests that tokens were sampled for; where steps overlap,
            also those that had ended meanwhile.
        forward_ns: Time in the model's forward pass, part of executing; 0 if not
            measured.
        waited_ns: From `scheduled_at` until the result of the step before was taken; 0
            where steps do not overlap.
        drafts: Requests that draft tokens were verified for.
        accepted_by_position: Of `accepted_tokens`, how many were the first draft of
            their request, the second, …
        draft_ns: Time of making the next step's drafts, part of executing.
        proposer_failures: Of the proposer, by cause.
        most_drafts: Of a request, that the engine would have it asked for at the end of
            the step; 0 where speculation is off.
    """

    step: int
    engine_index: int
    started_at: int
    scheduled_at: int
    executed_at: int
    ended_at: int
    prefill_requests: int
    prefill_tokens: int
    decode_requests: int
    decode_tokens: int
    request_tokens: list[tuple[int, int]]
    draft_tokens: int = 0
    accepted_tokens: int = 0
    context_tokens: int = 0
    attention_pairs: int = 0
    sampled_requests: int = 0
    forward_ns: int = 0
    waited_ns: int = 0
    drafts: int = 0
    accepted_by_position: list[int] = []
    draft_ns: int = 0
    proposer_failures: dict[str, int] = {}
    most_drafts: int = 0

    @property
    def execute_ns(self) -> int:
        """The executor's time for this step alone: sums of it count no time twice."""
        return self.executed_at - self.scheduled_at - self.waited_ns


class ClockPair(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The same moment on the wall clock and on the monotonic clock, in ns."""

    wall: int
    monotonic: int


class StepOutput(msgspec.Struct, frozen=True, array_like=True):
    """All that one step, or one change of state between steps, has to tell.

    Attributes:
        at: One timestamp for the batch.
        cause: `step`, or what changed the state: `start` (of the first of several
            overlapping steps), `transfer` (of KV, that ended between steps), `idle`,
            `abort`, `heartbeat`, `reset`.
        record: Present for a step.
        stats: The state after it.
        evictions: Of sampled blocks, where residency is measured.
        clock: Now and then, for placing spans.
        cache_changes: Of the prefix cache, where they are followed and there are any.
    """

    engine_index: int
    at: int
    cause: str
    stats: SchedulerStats
    record: StepRecord | None = None
    queued: list[Queued] = []
    scheduled: list[Scheduled] = []
    preempted: list[Preempted] = []
    new_tokens: list[NewTokens] = []
    finished: list[Finished] = []
    evictions: list[BlockEviction] = []
    clock: ClockPair | None = None
    cache_changes: CacheChanges | None = None
