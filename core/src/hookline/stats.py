"""Numbers made of events: the scheduler's state, a step's yield, a request's sum."""

from collections import deque
from dataclasses import dataclass, field

import msgspec

from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.slo import SloMiss


class PrefixCacheCounts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Running totals of the prefix cache, counted once a request, at first admission.

    Attributes:
        requests: Requests looked up.
        queried_tokens: Tokens looked up.
        hit_tokens: Tokens found.
    """

    requests: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0


class Residue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the conservation laws leave over: 0 everywhere, or there is a bug.

    Attributes:
        requests: Received − finished − in flight.
        tokens: Sampled − those of finished requests − those of requests in flight.
        blocks: Pool size − free − held, and references − entries of block tables and of
            KV transfers.
    """

    requests: int = 0
    tokens: int = 0
    blocks: int = 0


class BlockEviction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A sampled block of the prefix cache was taken for something else (ns).

    Attributes:
        lifetime: From its allocation to its eviction.
        idle: From the moment when its last holder gave it back to its eviction.
        reuse_gaps: Between its last uses, of which the allocation is the first; at
            most three.
    """

    lifetime: int
    idle: int
    reuse_gaps: tuple[int, ...] = ()


class TierStats(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A tier of KV blocks that a connector keeps: now, and since the engine's start.

    Attributes:
        blocks: That it has.
        max_blocks: That it may have.
        bytes: Theirs.
        max_bytes: Likewise.
        hit_tokens: Looked for in it, and loaded.
        missed_tokens: Looked for in it, and not there.
        in_bytes: That came into it.
        out_bytes: That were loaded from it.
        evicted_blocks: That made room for others.
        dropped_blocks: That should have come into it, and could not.
    """

    blocks: int = 0
    max_blocks: int = 0
    bytes: int = 0
    max_bytes: int = 0
    hit_tokens: int = 0
    missed_tokens: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    evicted_blocks: int = 0
    dropped_blocks: int = 0


MOST_TIERS = 8
"""Of a connector."""


class TransferStats(msgspec.Struct, frozen=True, array_like=True):
    """KV transfers: those of the moment, and totals since the engine's start.

    Attributes:
        loading: Loads under way.
        saving: Saves of kept blocks under way.
        closing: Transfers that were given up, and that the worker has not closed yet.
        held_blocks: Blocks that transfers hold, not requests.
        oldest_load_at: When the oldest load under way began (monotonic ns).
        oldest_save_at: When the oldest save under way began.
        breaker_open: Whether the connector is not asked, or only on trial, because it
            failed too often in a row.
        loads: Loads that ended, failed ones included, but not those given up.
        saves: Likewise, saves of kept blocks.
        load_ns: Time of these loads; of a synchronous one, what it held its step up.
        save_ns: Time of these saves, from the end of their requests.
        loaded_bytes: Written to blocks by the connector.
        saved_bytes: Read from blocks by the connector.
        recomputed_tokens: Tokens that failed loads should have brought, or that were
            computed on what they brought.
        expired_blocks: Blocks that were kept until their deadline, and not saved.
        late_reports: Reports of transfers that had ended, or had been given up.
        failures: By stage and reason.
        tiers: Of the connector, by name.
    """

    loading: int = 0
    saving: int = 0
    closing: int = 0
    held_blocks: int = 0
    oldest_load_at: int | None = None
    oldest_save_at: int | None = None
    breaker_open: bool = False
    loads: int = 0
    saves: int = 0
    load_ns: int = 0
    save_ns: int = 0
    loaded_bytes: int = 0
    saved_bytes: int = 0
    recomputed_tokens: int = 0
    expired_blocks: int = 0
    late_reports: int = 0
    failures: dict[str, dict[str, int]] = {}
    tiers: dict[str, TierStats] = {}

    def at_rest(self) -> "TransferStats":
        """The same totals with nothing under way."""
        return msgspec.structs.replace(
            self,
            loading=0,
            saving=0,
            closing=0,
            held_blocks=0,
            oldest_load_at=None,
            oldest_save_at=None,
        )


class SchedulerStats(msgspec.Struct, frozen=True, array_like=True):
    """The engine's state at one moment; totals count from the engine's start.

    Attributes:
        running: Requests in the running batch.
        waiting: Requests waiting for room, preempted ones included.
        waiting_for_grammar: Requests waiting for their grammar.
        waiting_for_remote_kv: Requests waiting for KV from elsewhere.
        kv_blocks: Size of the pool.
        kv_blocks_used: Blocks held by requests.
        kv_blocks_cached: Free blocks that still hold a reusable prefix.
        prefix_cache: Totals of the local prefix cache.
        external_cache: The same of a KV connector.
        waiting_tokens: Tokens that the waiting requests have yet to compute, prefix
            hits not subtracted.
        received: Requests ever taken in.
        finished: Requests ever ended, by reason.
        preemptions: Preemptions ever.
        computed_tokens: Tokens ever computed, recomputed ones included.
        recomputed_tokens: Tokens ever computed again after a preemption.
        discarded_tokens: Tokens ever sampled for requests that had ended meanwhile,
            where steps overlap, or whose KV turned out wrong.
        transfers: Of KV, to and from a connector.
        oldest_waiting_at: When the oldest waiting request was queued (monotonic ns).
        oldest_running_at: When the oldest running request was queued.
        residue: Of the conservation laws.
    """

    running: int = 0
    waiting: int = 0
    waiting_for_grammar: int = 0
    waiting_for_remote_kv: int = 0
    kv_blocks: int = 0
    kv_blocks_used: int = 0
    kv_blocks_cached: int = 0
    prefix_cache: PrefixCacheCounts = PrefixCacheCounts()
    received: int = 0
    finished: dict[str, int] = {}
    preemptions: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    oldest_waiting_at: int | None = None
    oldest_running_at: int | None = None
    residue: Residue = Residue()
    external_cache: PrefixCacheCounts = PrefixCacheCounts()
    waiting_tokens: int = 0
    discarded_tokens: int = 0
    transfers: TransferStats = TransferStats()

    @property
    def kv_usage(self) -> float:
        """Share of the pool held by requests, 0 to 1; reusable blocks count as free."""
        return self.kv_blocks_used / self.kv_blocks if self.kv_blocks else 0.0

    def at_rest(self) -> "SchedulerStats":
        """The same totals and residue with nothing running, waiting or held."""
        return msgspec.structs.replace(
            self,
            running=0,
            waiting=0,
            waiting_tokens=0,
            waiting_for_grammar=0,
            waiting_for_remote_kv=0,
            kv_blocks_used=0,
            kv_blocks_cached=0,
            oldest_waiting_at=None,
            oldest_running_at=None,
            transfers=self.transfers.at_rest(),
        )


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
        reason: Why it ended.
        cause: More about it.
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
    reason: FinishReason
    cause: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedGroup:
    """A client's whole request: its `n` completions have all ended.

    Attributes:
        n: How many they were.
        max_output_tokens: Length of the longest.
    """

    n: int
    max_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """A request's first token came.

    Attributes:
        seconds: Since its arrival, on the front end's clock.
        is_streamed: Whether the client gets its tokens as they come.
        trace_id: Of the request's trace; empty if it is not traced.
    """

    seconds: float
    is_streamed: bool = False
    trace_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationStats:
    """What one step brought, seen from the front end.

    Attributes:
        prompt_tokens_computed: Of requests whose first token came: computed here.
        prompt_tokens_local: … found in the local prefix cache.
        prompt_tokens_external: … brought by a connector.
        generation_tokens: New tokens.
        preemptions: Requests preempted.
        recomputed_tokens: Tokens that resumed requests must compute again.
        first_tokens: One entry for each first token.
        inter_token_seconds: (interval ÷ tokens, tokens) of later arrivals; those with
            the same interval and number stand together.
        finished: Requests that ended.
        finished_groups: Clients' requests that ended.
        evictions: Of sampled blocks of the prefix cache.
    """

    prompt_tokens_computed: int = 0
    prompt_tokens_local: int = 0
    prompt_tokens_external: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    first_tokens: tuple[FirstToken, ...] = ()
    inter_token_seconds: tuple[tuple[float, int], ...] = ()
    finished: tuple[FinishedRequest, ...] = ()
    finished_groups: tuple[FinishedGroup, ...] = ()
    evictions: tuple[BlockEviction, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        return (
            self.prompt_tokens_computed
            + self.prompt_tokens_local
            + self.prompt_tokens_external
        )


@dataclass(slots=True)
class HitRateWindow:
    """Prefix-cache hit rate over the most recent requests.

    Attributes:
        max_requests: Older entries are dropped while more than this remain.
    """

    max_requests: int = 1000
    _last: PrefixCacheCounts = field(default_factory=PrefixCacheCounts)
    _entries: deque[PrefixCacheCounts] = field(default_factory=deque)
    _requests: int = 0
    _queried: int = 0
    _hits: int = 0

    def observe(self, totals: PrefixCacheCounts) -> None:
        """Takes the running totals; a total that went backwards starts afresh."""
        if totals.requests < self._last.requests:
            self._last = PrefixCacheCounts()
        new = PrefixCacheCounts(
            totals.requests - self._last.requests,
            totals.queried_tokens - self._last.queried_tokens,
            totals.hit_tokens - self._last.hit_tokens,
        )
        self._last = totals
        if new.requests:
            self._entries.append(new)
            self._add(new, sign=1)
        while self._requests > self.max_requests and len(self._entries) > 1:
            self._add(self._entries.popleft(), sign=-1)

    def _add(self, entry: PrefixCacheCounts, *, sign: int) -> None:
        self._requests += sign * entry.requests
        self._queried += sign * entry.queried_tokens
        self._hits += sign * entry.hit_tokens

    @property
    def rate(self) -> float | None:
        """Hits ÷ queries, 0 to 1; None before the first query."""
        return self._hits / self._queried if self._queried else None
