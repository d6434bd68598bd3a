"""What a step computes, and what it took its executor to compute it."""

from enum import StrEnum

import msgspec


class Obstacle(StrEnum):
    """Why a step admitted no more of the requests that waited; empty if none did."""

    NONE = ""
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - none
    BATCH_SLOTS = "batch_slots"
    SHARE = "share"
    KV_BLOCKS = "kv_blocks"
    GATE = "gate"
    PIPELINE = "pipeline"
    SLEEP = "sleep"


class StepWork(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a step computes, as it was planned.

    Attributes:
        prefill_requests: Requests that compute prompt or recomputed tokens.
        prefill_tokens: Tokens computed for `prefill_requests`.
        decode_requests: Requests that compute one token, plus draft tokens.
        decode_tokens: Tokens computed for `decode_requests`, draft tokens included.
        context_tokens: Cached tokens that the scheduled requests attend to.
        attention_pairs: Number of pairs of a computed token and one that it attends to:
            q·c + q(q+1)/2 for q tokens after c computed ones; an upper bound for trees
            of drafts.
        obstacle: Why it admitted no more requests.
    """

    prefill_requests: int = 0
    prefill_tokens: int = 0
    decode_requests: int = 0
    decode_tokens: int = 0
    context_tokens: int = 0
    attention_pairs: int = 0
    obstacle: Obstacle = Obstacle.NONE

    @property
    def requests(self) -> int:
        """Number of scheduled requests."""
        return self.prefill_requests + self.decode_requests

    @property
    def tokens(self) -> int:
        """Number of tokens to compute, draft tokens included."""
        return self.prefill_tokens + self.decode_tokens


class ThreadUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The CPU threads that computed a step; times are in ns.

    Attributes:
        threads: Number of threads that computed the step; 0 if there is no such team.
        barrier_wait_ns: Time in which threads waited for each other, summed over them.
        running_ns: Time of the threads on cores since the last report. Several steps
            share a report: it is 0 in most of them, as are the times below.
        preempted_ns: Time in which threads could run, but had no core.
        throttled_ns: Time in which the control group's CPU quota stopped the process.
    """

    threads: int = 0
    barrier_wait_ns: int = 0
    running_ns: int = 0
    preempted_ns: int = 0
    throttled_ns: int = 0


class RankUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What it cost that several processes computed a step; times are in ns.

    Attributes:
        exchange_ns: Time that the output rank spent on exchanges with the other ranks
            of its stage, waiting for them included.
        handover_ns: Time in which no rank could compute it: its plan was on its way to
            the ranks, or its result to the engine.
        expert_tokens: Number of pairs of a token and an expert that each rank computed,
            by rank, if each has whole experts; otherwise empty.
        expert_busiest_tokens: Number of such pairs that its ranks could have computed
            in the time of the busiest one, of any engine that shares the experts.
        expert_wait_ns: Time that the output rank waited for ranks of all engines that
            share the experts; 0 if no other engine does.
    """

    exchange_ns: int = 0
    handover_ns: int = 0
    expert_tokens: tuple[int, ...] = ()
    expert_busiest_tokens: int = 0
    expert_wait_ns: int = 0


NO_WORK = StepWork()
NO_THREADS = ThreadUse()
NO_RANKS = RankUse()


class Execution(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What it took an executor to compute a step.

    Attributes:
        forward_ns: Time of the forward pass, summed over stages; 0 if not measured.
        kernels_compiling: Torch computed it, because its kernels are being compiled.
        thread_use: The CPU threads that computed it.
        rank_use: What it cost that several processes computed it.
    """

    forward_ns: int = 0
    kernels_compiling: bool = False
    thread_use: ThreadUse = NO_THREADS
    rank_use: RankUse = NO_RANKS


NO_EXECUTION = Execution()


class BlockEviction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The life of a sampled block that was evicted from the prefix cache, in ns.

    Attributes:
        lifetime: From the block's allocation to its eviction.
        idle: From when its last request freed it to its eviction.
        reuse_gaps: Between its last uses, the allocation included; at most three.
    """

    lifetime: int
    idle: int
    reuse_gaps: tuple[int, ...] = ()


class EvictionWork(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What evictions from the prefix cache took.

    Attributes:
        blocks: Number of evicted blocks.
        nanoseconds: Time of the allocations that evicted them, from the first one on.
    """

    blocks: int = 0
    nanoseconds: int = 0


NO_EVICTIONS = EvictionWork()
