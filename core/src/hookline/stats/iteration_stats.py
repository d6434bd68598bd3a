"""Statistics of one step of the engine, as the front end sees it."""

from dataclasses import dataclass, field

from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.step_work import BlockEviction


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScheduled:
    """The first SCHEDULED of a request.

    Attributes:
        queue_seconds: Time since QUEUED, on the engine's clock.
        trace_id: Id of the request's trace; empty if it is not traced.
        span_id: Id of the request's span in it; empty if it is not traced.
    """

    queue_seconds: float
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """The first token of a request.

    Attributes:
        seconds: Time since the request's arrival, on the front end's clock.
        prefill_seconds: Time since its first SCHEDULED, on the engine's clock; None if
            that is not known.
        is_streamed: Whether the client gets tokens as they are generated.
        decodes_elsewhere: Whether another instance makes the client's first token.
        trace_id: Id of the request's trace; empty if it is not traced.
        span_id: Id of the request's span in it; empty if it is not traced.
    """

    seconds: float
    prefill_seconds: float | None = None
    is_streamed: bool = False
    decodes_elsewhere: bool = False
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationStats:
    """Statistics of one step, as the front end sees it.

    Attributes:
        prompt_tokens_computed: Computed prompt tokens of requests that got their first
            token.
        prompt_tokens_local: Their prompt tokens from the local prefix cache.
        prompt_tokens_external: Their prompt tokens from a cache of a KV connector.
        prompt_tokens_transferred: Their prompt tokens that other instances computed for
            them.
        generation_tokens: Number of generated tokens.
        preemptions: Number of preemptions.
        recomputed_tokens: Tokens that resumed requests must compute again.
        first_scheduled: One entry for each request's first time of being scheduled.
        first_tokens: One entry for each request that got its first token.
        inter_token_seconds: (interval per token, number of tokens) of later tokens;
            equal intervals share an entry.
        finished: Requests that ended.
        finished_groups: Clients' requests all of whose completions have ended.
        evictions: Evictions of sampled blocks from the prefix cache.
        received_correction: To be added to the engine's total of received requests, if
            several front ends share it, for requests that ended before it confirmed
            them.
        resubmitted: Requests of its old process that its new one gets again from front
            ends that do not own it; see `EngineStarted` for those of the owner.
        moved: Requests that left the engine for another one, because it has ended.
        migrated_in: Requests that moved to the engine, which it has not received.
        sections: News of extensions, by their names.
    """

    prompt_tokens_computed: int = 0
    prompt_tokens_local: int = 0
    prompt_tokens_external: int = 0
    prompt_tokens_transferred: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    first_scheduled: tuple[FirstScheduled, ...] = ()
    first_tokens: tuple[FirstToken, ...] = ()
    inter_token_seconds: tuple[tuple[float, int], ...] = ()
    finished: tuple[FinishedRequest, ...] = ()
    finished_groups: tuple[FinishedGroup, ...] = ()
    evictions: tuple[BlockEviction, ...] = ()
    received_correction: int = 0
    resubmitted: int = 0
    moved: int = 0
    migrated_in: int = 0
    sections: Sections = field(default_factory=lambda: NO_SECTIONS)

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens from all sources."""
        return (
            self.prompt_tokens_computed
            + self.prompt_tokens_local
            + self.prompt_tokens_external
            + self.prompt_tokens_transferred
        )
