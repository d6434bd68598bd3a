"""What one step of the engine brought, seen from the front end."""

from dataclasses import dataclass

from hookline.stats.block_eviction import BlockEviction
from hookline.stats.finished_request import FinishedGroup, FinishedRequest


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
