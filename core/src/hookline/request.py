"""Requests: as sent by the front end, and their state in the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from hookline.frozen import EMPTY, frozen_map
from hookline.sampling_values import SamplingValues
from hookline.sections import NO_SECTIONS, Sections

Weight = Annotated[float, msgspec.Meta(ge=0.001, le=1000.0)]
"""A tenant's share under the policy `fair`, relative to the others'."""

SESSION_ID = r"[!-~]{1,256}"
"""What an id of a session is: visible ASCII without spaces, of bounded length."""

SessionId = Annotated[str, msgspec.Meta(pattern=rf"\A{SESSION_ID}\Z")]

Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class FinishReason(StrEnum):
    """Why a request ended; every request ends with exactly one of them."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REJECTED = "rejected"
    TIMEOUT = "timeout"


class Origin(StrEnum):
    """Whose output was corrupted."""

    MODEL = "model"
    LOGITS_PROCESSOR = "logits_processor"
    PROPOSER = "proposer"
    ENGINE = "engine"


class Slo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Service-level objectives: upper bounds in seconds; None sets none.

    Attributes:
        ttft: Time to first token.
        tpot: Time per output token.
        e2e: End-to-end latency.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about a request that the engine passes to observers unchanged.

    Attributes:
        client_id: The client's own id; never a key.
        response_id: Id of the response that the client gets; empty offline.
        tenant: Tenant that the request is accounted to.
        lora: Name of the LoRA adapter.
        priority: Lower runs first under the priority policy.
        trace_context: W3C trace headers, by lower-case name.
        trace_id: Trace of its spans, 32 hexadecimal digits; empty if it is not traced.
        span_id: Id of the request's span in that trace, 16 hexadecimal digits; empty if
            it is not traced.
        slo: Its latency objectives, those of the engine included.
        operation: OpenTelemetry's GenAI one: `text_completion`, `chat` or `embeddings`.
        client: Who pays, which no client chooses, and for whom: whose turn it takes.
        weight: Weight of who pays under the policy `fair`.
        session_id: Conversation or agent's run in its client's words, for the KV events
            of its blocks; None without, or if cache changes are not reported.
    """

    client_id: str = ""
    response_id: str = ""
    tenant: str | None = None
    lora: str | None = None
    priority: int = 0
    trace_context: Mapping[str, str] = EMPTY
    trace_id: str = ""
    span_id: str = ""
    slo: Slo | None = None
    operation: str = "text_completion"
    client: tuple[str, str] = ("", "")
    weight: Weight = 1.0
    session_id: SessionId | None = None

    def __post_init__(self) -> None:
        if self.trace_context is not EMPTY:
            force_setattr(self, "trace_context", frozen_map(self.trace_context))


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One completion to generate, from a client's handler to the worker.

    Whoever takes it from a client sets the prompt, the parameters, the facts and what
    is asked of extensions. The front end completes it: with defaults of the model, with
    sections of extensions, and with its id once it is sent.

    Attributes:
        request_id: Internal id, unique among the live requests of an engine and those
            of a step in flight.
        prompt_token_ids: The prompt, at least one token.
        params: Sampling and stopping; in the engine `max_tokens` is a number, unless it
            is a prefill alone.
        eos_token_ids: The model's own stop tokens.
        bad_words_token_ids: Token sequences that must not be completed.
        cache_salt: Requests with different salts share no cached blocks.
        facts: Facts for observers.
        timeout_seconds: Time left when it was sent; None without a deadline. It is
            relative, because the clocks of two processes are never compared.
        completion_index: Index among the client's completions, which differ in seeds.
        is_prefill_only: Whether it ends with its last prompt token, after which an
            extension has its result, and no token is sampled.
        skip_reading_prefix_cache: Whether all of its prompt has to be computed.
        sections: What extensions get of it, by their names; before the front end has
            prepared it, what the client asks of them, such as `PoolingParams`.
        is_moved: Whether it already counts as received by an engine that has ended.
        adapter: Digest of the weights that compute it beside the model's, such as those
            of a LoRA adapter, which its blocks' hashes contain; None without any.
    """

    request_id: int = 0
    prompt_token_ids: list[int]
    params: SamplingValues
    eos_token_ids: tuple[int, ...] = ()
    bad_words_token_ids: tuple[tuple[int, ...], ...] = ()
    cache_salt: str | None = None
    facts: RequestFacts = RequestFacts()
    timeout_seconds: Seconds | None = None
    completion_index: int = 0
    is_prefill_only: bool = False
    skip_reading_prefix_cache: bool = False
    sections: Sections = NO_SECTIONS
    is_moved: bool = False
    adapter: str | None = None


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Log-probabilities (nats, of the unmodified distribution) at one position.

    The first entry is the token itself, then the likeliest ones in order.

    Attributes:
        token_ids: The tokens.
        logprobs: Their log-probabilities.
        rank: Rank of the first entry; 1 is the likeliest.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    rank: int


class RequestStatus(StrEnum):
    """State of a request in the engine."""

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


Line = tuple[tuple[str, str], str | None, str, int]
"""Client, tenant, id and priority of a request whose choices queue one by one."""


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """A request inside the engine core; only the scheduler changes it.

    Attributes:
        sequence: Position in the engine's order of arrival.
        token_ids: Prompt, then output.
        num_computed_tokens: Number of `token_ids` whose K and V are in the cache, or
            will be after the steps in flight.
        num_pending_tokens: Number of tokens that steps in flight sample; they follow
            `token_ids`, and their values are not known yet.
        num_cached_tokens: Prompt tokens cached at first admission; None before it.
        block_ids: Blocks of the KV cache, in order of position.
        block_hashes: Chained hashes of the full blocks of `token_ids`.
        num_hashed_blocks: Number of `block_ids` that the prefix cache has seen.
        num_stored_prompt_tokens: Number of prompt tokens that it computed and added to
            the prefix cache; again if they were evicted meanwhile.
        prompt_logprobs: Collected over the prompt's chunks, if requested.
        num_drafts: Number of drafts that the step in flight verifies.
        reads_prefix_cache: Whether it may reuse cached blocks. One that asks for prompt
            logprobs needs every position computed, and so does one of which an
            extension reads them all.
        max_computed_tokens: Highest `num_computed_tokens`; below it is recomputation.
        is_provisional: Whether keys and values that it is computed from may turn out to
            be wrong: nothing of it is cached meanwhile.
        num_doomed_results: Number of results in flight that depend on wrong keys and
            values; their tokens are dropped.
        sections: Sections of extensions, which go to the workers; replaced, never
            changed.
        rank: Its place in the order of admission; None until it has queued.
        line: What the choices of one client's request share; None without its id.
        is_follower: Whether it is a choice that queued behind one of the same request.
        last_step: Number of the last step that was planned to compute it; 0 before.
        corrupted_by: Whose output for it was corrupted, if it is served nevertheless.
    """

    inner: GenerateRequest
    _: KW_ONLY
    sequence: int
    queued_at: int
    max_tokens: int
    request_id: int = field(init=False)
    params: SamplingValues = field(init=False)
    facts: RequestFacts = field(init=False)
    token_ids: list[int] = field(init=False)
    num_prompt_tokens: int = field(init=False)
    stop_token_ids: frozenset[int] = field(init=False)
    reads_prefix_cache: bool = field(init=False)
    sections: Sections = field(init=False)
    status: RequestStatus = RequestStatus.WAITING
    num_computed_tokens: int = 0
    max_computed_tokens: int = 0
    num_pending_tokens: int = 0
    num_drafts: int = 0
    num_cached_tokens: int | None = None
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    block_ids: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)
    num_hashed_blocks: int = 0
    num_stored_prompt_tokens: int = 0
    is_provisional: bool = False
    num_doomed_results: int = 0
    rank: tuple[int, int, int] | None = None
    line: Line | None = None
    is_follower: bool = False
    last_step: int = 0
    corrupted_by: Origin | None = None

    def __post_init__(self) -> None:
        inner = self.inner
        self.request_id, self.sections = inner.request_id, inner.sections
        params = self.params = inner.params
        facts = self.facts = inner.facts
        self.token_ids = list(inner.prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.reads_prefix_cache = (
            not inner.skip_reading_prefix_cache and params.prompt_logprobs is None
        )
        if facts.client_id:
            self.line = (facts.client, facts.tenant, facts.client_id, facts.priority)
        eos = inner.eos_token_ids
        # A complete grammar leaves no other token.
        if params.ignore_eos and params.structured_outputs is None:
            eos = ()
        self.stop_token_ids = frozenset((*eos, *params.stop_token_ids))

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_missing_tokens(self) -> int:
        """Number of tokens still to be computed, those in flight included."""
        return len(self.token_ids) + self.num_pending_tokens - self.num_computed_tokens

    @property
    def is_prefilling(self) -> bool:
        """Whether more than the newest token is still to be computed."""
        return self.num_missing_tokens > 1

    @property
    def is_complete(self) -> bool:
        """Whether it ends by length, at the latest, with the tokens in flight."""
        num_tokens = len(self.token_ids) + self.num_pending_tokens
        return num_tokens >= self.num_prompt_tokens + self.max_tokens
