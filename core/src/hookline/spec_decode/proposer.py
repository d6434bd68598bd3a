"""What a draft proposer is given and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

FloatMatrix: TypeAlias = Sequence[Sequence[float]]
"""[drafts, vocabulary] probabilities; any 2-d array will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """One request of the step that has just run.

    Attributes:
        request_id: Internal id; the same until `release` is called for it.
        token_ids: Prompt and output so far.
        max_drafts: Propose at most so many tokens.
        hidden_states: Of the target model at the request's new positions, [tokens,
            hidden size], when the proposer asked for them; else None.
    """

    request_id: int
    token_ids: Sequence[int]
    max_drafts: int
    hidden_states: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Up to `max_drafts` tokens for one request.

    Attributes:
        token_ids: The guess, in order; empty means none.
        probabilities: The distribution each was drawn from; None means that the
            proposer was certain (a one-hot distribution).
    """

    token_ids: Sequence[int]
    probabilities: FloatMatrix | None = None


class Proposer(Protocol):
    """Guesses the next tokens of running requests; runs beside the model.

    Attributes:
        needs_hidden_states: Whether `propose` wants the target's hidden states.
    """

    needs_hidden_states: bool

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Drafts]:
        """Returns one `Drafts` a request, in order; must not change its input."""
        ...

    def release(self, request_ids: Sequence[int]) -> None:
        """Forgets requests that ended or were preempted."""
        ...
