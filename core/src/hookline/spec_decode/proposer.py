"""What a draft proposer is given and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from hookline.sampling_params import SamplingParams

if TYPE_CHECKING:  # whoever reads options or serves needs no numpy
    import numpy as np
    import numpy.typing as npt

FloatMatrix: TypeAlias = "Sequence[Sequence[float]] | npt.NDArray[np.float32]"
"""[drafts, vocabulary] probabilities; anything that numpy makes such an array of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """One request of the step that has just run.

    Attributes:
        request_id: Internal id; the same until `release` is called for it.
        token_ids: [tokens] prompt and output so far: a view that cannot be written to
            and holds until `propose` returns. From one call to the next it grows by
            one token or more, and never changes before its end.
        max_drafts: Propose at most so many tokens.
        params: How the request is sampled.
        hidden_states: Of the target model at the request's new positions, [tokens,
            hidden size], when the proposer asked for them; else None.
    """

    request_id: int
    token_ids: "npt.NDArray[np.int32]"
    max_drafts: int
    params: SamplingParams
    hidden_states: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Up to `max_drafts` tokens for one request.

    Attributes:
        token_ids: The guess, in order; empty means none.
        probabilities: The distribution that each was drawn from; None means that the
            proposer was certain (a one-hot distribution).
    """

    token_ids: "Sequence[int] | npt.NDArray[np.int32]"
    probabilities: "FloatMatrix | None" = None


class Proposer(Protocol):
    """Guesses the next tokens of running requests; runs beside the model.

    It has a thread of its own, in which it is called from its first call to its last.

    Attributes:
        needs_hidden_states: Whether `propose` wants the target's hidden states.
    """

    needs_hidden_states: bool

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Drafts]:
        """Returns one `Drafts` a request, in order; must not change its input.

        May raise: the step then goes on without drafts, and the failure is counted.
        """
        ...

    def release(self, request_ids: Sequence[int]) -> None:
        """Forgets requests that ended or were preempted; some may be unknown to it."""
        ...
