"""Schema of a line, version 1; the README explains each field.

Fields may be added. Renaming or removing a field, or changing its meaning, makes a new
version.
"""

import msgspec

from hookline_metrics.slo import SloMiss

VERSION = 1


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of prompt tokens by source, and of output and draft tokens."""

    prompt: int | None
    computed: int | None
    local_cached: int
    external_cached: int
    transferred: int
    generated: int | None
    recomputed: int
    drafted: int
    accepted: int


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Duration of each phase."""

    queue: float | None
    prefill: float | None
    decode: float | None
    inference: float | None
    preempted: float
    preempted_prefill: float
    ttft: float | None
    tpot: float | None
    e2e: float
    forward: float | None
    execute: float | None
    adapter: float | None


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling parameters that affect cost and repeatability."""

    max_tokens: int | None
    temperature: float
    top_p: float
    top_k: int | None
    n: int
    seed: int | None


class Attainment(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the request was judged by SLO objectives, and which it missed."""

    judged: bool
    misses: tuple[SloMiss, ...]


class TokenIds(msgspec.Struct, frozen=True, kw_only=True):
    """The first token ids of a prompt or an output."""

    token_ids: tuple[int, ...]
    truncated: bool


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A finished request."""

    ts: str
    v: int = VERSION
    model: str
    engine: int
    request_id: str
    internal_id: int | None
    completion_index: int
    tenant: str | None
    lora: str | None
    lora_digest: str | None
    priority: int
    trace_id: str | None
    operation: str
    streamed: bool
    decodes_elsewhere: bool
    reason: str
    cause: str | None
    error: str | None
    tokens: Tokens
    seconds: Seconds
    preemptions: int
    sampling: Sampling | None
    slo: Attainment
    prompt: TokenIds | msgspec.UnsetType | None = msgspec.UNSET
    output: TokenIds | msgspec.UnsetType | None = msgspec.UNSET
