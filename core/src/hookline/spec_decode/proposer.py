"""What a draft proposer is given and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from hookline.sampling_params import SamplingParams
from hookline.spec_decode.target import HiddenStates, TargetModel

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
        max_drafts: Propose at most so many tokens. 0, only where the proposer asked for
            hidden states, of a request whose prompt is still being computed, or has
            just been and no drafts are wanted: it is shown the states alone.
        params: How the request is sampled.
        hidden_states: Of the target at the request's new positions, when the proposer
            asked for them; else None.
    """

    request_id: int
    token_ids: "npt.NDArray[np.int32]"
    max_drafts: int
    params: SamplingParams
    hidden_states: HiddenStates | None = None


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
        needs_hidden_states: Whether `propose` wants the target's hidden states; then it
            must be a `HiddenStateProposer`.
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


class HiddenStateProposer(Proposer, Protocol):
    """A proposer that drafts from what the target model thinks.

    It is also asked for requests that it cannot draft for yet (`max_drafts` 0).
    """

    def prepare(self, target: TargetModel) -> None:
        """Called once, when the target is loaded and before anything is proposed.

        In the thread that loaded the target, not in the proposer's own.

        Raises:
            ConfigError: The proposer does not fit this target; the start ends with it.
        """
        ...


def wants_hidden_states(proposer: Proposer) -> TypeGuard[HiddenStateProposer]:
    """Whether it is shown the target and its hidden states."""
    return bool(getattr(proposer, "needs_hidden_states", False))
