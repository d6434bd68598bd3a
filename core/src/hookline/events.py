"""The engine's events: one batch of typed events per step.

Times are monotonic nanoseconds of the engine's process; only subtract times of the same
process. The front end turns events into the hooks of `hookspecs`.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from hookline.finish_cause import FinishCause
from hookline.request import FinishReason, Origin, TokenLogprobs
from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import (
    NO_EVICTIONS,
    NO_EXECUTION,
    NO_WORK,
    BlockEviction,
    EvictionWork,
    Execution,
    StepWork,
)


class Queued(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """QUEUED: the request entered the engine's waiting queue."""

    request_id: int
    at: int
    prompt_tokens: int


class Scheduled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """SCHEDULED: the request was admitted to the running batch, first or again.

    Attributes:
        local_cached_tokens: Prompt tokens found in this engine's prefix cache.
        external_cached_tokens: Prompt tokens that an extension has found elsewhere.
        recomputed_tokens: Tokens to compute again after a preemption.
        is_resumed: Whether this follows a preemption.
        remote_kv: (begin, end) of its wait for KV from elsewhere since it was queued or
            preempted, or None.
        transferred_tokens: Prompt tokens that another instance has computed for it.
    """

    request_id: int
    at: int
    local_cached_tokens: int
    external_cached_tokens: int
    recomputed_tokens: int
    is_resumed: bool
    remote_kv: tuple[int, int] | None = None
    transferred_tokens: int = 0


class PreemptionCause(StrEnum):
    """Why a running request lost its KV blocks."""

    NO_FREE_BLOCKS = "no_free_blocks"
    LOAD_FAILED = "load_failed"
    SLEEP = "sleep"
    RESET = "reset"


class Preempted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """PREEMPTED: the request lost its KV blocks and returned to the waiting queue.

    Attributes:
        computed_tokens: Tokens whose keys and values were freed.
        failed_external_tokens: Those of them that an extension should have brought; 0
            unless a failed load caused the preemption.
        cause: Why it was preempted.
        beneficiary_id: The request that needed its blocks; None if it needed blocks
            itself and no request ranked lower, or if the cause is another one.
        prompt_tokens: Number of its prompt tokens.
        output_tokens: Number of tokens generated for it before and known by then.
    """

    request_id: int
    at: int
    computed_tokens: int
    failed_external_tokens: int = 0
    cause: PreemptionCause = PreemptionCause.NO_FREE_BLOCKS
    beneficiary_id: int | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0


class NewTokens(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """NEW_TOKENS: the step generated tokens for the request.

    Attributes:
        token_ids: Sampled tokens and accepted draft tokens, in order.
        logprobs: One entry per token, or None if not requested.
        prompt_logprobs: One entry per prompt token but the first, sent with the first
            token if requested.
        draft_tokens: Number of draft tokens verified in this step.
        accepted_tokens: Number of draft tokens accepted; they are part of `token_ids`.
    """

    request_id: int
    at: int
    token_ids: Sequence[int]
    logprobs: Sequence[TokenLogprobs] | None = None
    prompt_logprobs: Sequence[TokenLogprobs] | None = None
    draft_tokens: int = 0
    accepted_tokens: int = 0


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """FINISHED: the request ended and its blocks were freed.

    Attributes:
        cause: Why it ended.
        output_tokens: Number of tokens that it generated.
        stored_prompt_tokens: Number of prompt tokens that it added to the prefix cache.
        sections: Results of extensions for its client, which observers do not get.
        corrupted_by: Whose output was corrupted, if it was served nevertheless.
    """

    request_id: int
    at: int
    cause: FinishCause
    output_tokens: int
    stored_prompt_tokens: int = 0
    sections: Sections = NO_SECTIONS
    corrupted_by: Origin | None = None

    @property
    def reason(self) -> FinishReason:
        """The coarse reason of the end."""
        return self.cause.reason


class BlocksStored(msgspec.Struct, frozen=True, array_like=True, tag="stored"):
    """Full blocks of a request were stored in the prefix cache.

    Attributes:
        block_hashes: The blocks' chained hashes; each covers all tokens up to its
            block's end.
        parent_hash: Hash of the preceding block; None at the start of a request.
        token_ids: Token ids of all these blocks.
        lora: Name of the LoRA adapter, if any.
        cache_salt: Salt of the hashes, if any; requests with other salts find no block.
        session_id: Session of the request that stored them, if it named one; requests
            of other sessions share the blocks.
    """

    block_hashes: Sequence[bytes]
    parent_hash: bytes | None
    token_ids: Sequence[int]
    lora: str | None = None
    cache_salt: str | None = None
    session_id: str | None = None


class BlocksRemoved(msgspec.Struct, frozen=True, array_like=True, tag="removed"):
    """Blocks were evicted from the prefix cache.

    Attributes:
        block_hashes: Hashes of the evicted blocks.
    """

    block_hashes: Sequence[bytes]


class CacheCleared(msgspec.Struct, frozen=True, array_like=True, tag="cleared"):
    """The prefix cache was reset; it holds no blocks."""


CacheEvent = BlocksStored | BlocksRemoved | CacheCleared


class CacheChanges(msgspec.Struct, frozen=True, array_like=True):
    """Changes of the prefix cache since the previous report.

    Attributes:
        sequence: Consecutive number, from 1.
        events: The changes, in order.
    """

    sequence: int
    events: Sequence[CacheEvent]


class VerifiedDrafts(msgspec.Struct, frozen=True, array_like=True):
    """Outcome of a step's drafts.

    Attributes:
        drafts: Number of drafts verified, at most one per request.
        draft_tokens: Number of their draft tokens.
        accepted_tokens: Number of draft tokens accepted and added to their requests.
        accepted_by_position: Accepted draft tokens by position in the draft, from 0.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_position: tuple[int, ...] = ()

    @classmethod
    def of(cls, outcomes: Sequence[tuple[int, int]]) -> "VerifiedDrafts":
        """Adds up (verified, accepted) numbers of draft tokens of each request."""
        accepted = [each for _, each in outcomes]
        return cls(
            len(outcomes),
            sum(count for count, _ in outcomes),
            sum(accepted),
            tuple(
                sum(each > position for each in accepted)
                for position in range(max(accepted))
            ),
        )


NO_DRAFTS = VerifiedDrafts()


class StepRecord(msgspec.Struct, frozen=True, array_like=True):
    """One step of the engine.

    Steps are executed and reported in order. With `async_scheduling` a step is
    scheduled while the previous one executes, so steps overlap; `waited_ns` and
    `execute_ns` separate their times.

    Attributes:
        step: Number of the step, from 1.
        started_at: Time before scheduling.
        scheduled_at: Time between scheduling and executing.
        executed_at: Time between executing and updating, when the result was available.
        ended_at: Time after updating.
        request_tokens: (request id, tokens computed) for each scheduled request.
        work: What it computed.
        sampled_requests: Requests that tokens were sampled for; with overlapping steps,
            also those that had ended meanwhile.
        waited_ns: Time from `scheduled_at` until the previous step's result was
            available; 0 without overlapping steps.
        execution: What it took the executor to compute it.
        evictions: What the evictions from the prefix cache took while it was scheduled,
            or before and not yet counted by a step.
        verified: Outcome of its drafts.
        sections: What extensions did in it, by their names.
    """

    step: int
    engine_index: int
    started_at: int
    scheduled_at: int
    executed_at: int
    ended_at: int
    request_tokens: Sequence[tuple[int, int]]
    work: StepWork = NO_WORK
    sampled_requests: int = 0
    waited_ns: int = 0
    execution: Execution = NO_EXECUTION
    evictions: EvictionWork = NO_EVICTIONS
    verified: VerifiedDrafts = NO_DRAFTS
    sections: Sections = NO_SECTIONS

    @property
    def schedule_ns(self) -> int:
        """Time of planning this step."""
        return self.scheduled_at - self.started_at

    @property
    def execute_ns(self) -> int:
        """Execution time of this step alone, without overlap with other steps."""
        return self.executed_at - self.scheduled_at - self.waited_ns


class ClockPair(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The same moment on the wall clock and the monotonic clock, in nanoseconds."""

    wall: int
    monotonic: int


class StepEvents(msgspec.Struct, array_like=True):
    """What has happened since the last output.

    Attributes:
        evictions: Evictions of sampled blocks, if residency is measured.
        cache_changes: Changes of the prefix cache, if they are published.
    """

    queued: list[Queued] = []
    scheduled: list[Scheduled] = []
    preempted: list[Preempted] = []
    new_tokens: list[NewTokens] = []
    finished: list[Finished] = []
    evictions: list[BlockEviction] = []
    cache_changes: CacheChanges | None = None

    @property
    def have_requests(self) -> bool:
        """Whether anything has happened to a request."""
        return bool(
            self.new_tokens
            or self.queued
            or self.scheduled
            or self.preempted
            or self.finished
        )


class StepOutput(msgspec.Struct, frozen=True, array_like=True):
    """The output of one step, or of one state change between steps.

    Attributes:
        at: Timestamp of all events in it.
        cause: `step`, or the cause of the state change: `start` (first of several
            overlapping steps), `transfer` (an extension has news between steps),
            `idle`, `abort`, `heartbeat`, `reset`, `sleep`, `wake_up`.
        stats: The engine's state afterwards.
        record: The step's record; None for a state change.
        events: What has happened since the last output.
        clock: Sent periodically, to convert times to wall-clock time.
        sections: News of extensions, by their names.
    """

    engine_index: int
    at: int
    cause: str
    stats: SchedulerStats
    record: StepRecord | None = None
    events: StepEvents = msgspec.field(default_factory=StepEvents)
    clock: ClockPair | None = None
    sections: Sections = NO_SECTIONS
