"""What a draft proposer is given and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from hookline.sampling_params import SamplingParams
from hookline.spec_decode.draft_cache import DraftCache
from hookline.spec_decode.target import DraftLayer, HiddenStates, TargetModel

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
        max_drafts: Propose at most so many tokens. 0 where nothing is wanted: only if
            the proposer asked for hidden states, of a request whose prompt is still
            being computed, or has just been; and if it has layers of its own, of any,
            also of one that is about to end, whose blocks others may find.
        params: How the request is sampled.
        hidden_states: Of the target at the request's new positions, when the proposer
            asked for them; else None.
        block_ids: [blocks] int32, the KV blocks that hold its computed tokens, in
            order, when the proposer has layers of its own; else None.
    """

    request_id: int
    token_ids: "npt.NDArray[np.int32]"
    max_drafts: int
    params: SamplingParams
    hidden_states: HiddenStates | None = None
    block_ids: "npt.NDArray[np.int32] | None" = None


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

    It is also asked for requests that it cannot draft for yet (`max_drafts` 0). If it
    has an attribute `feature_layers` once it is prepared, it is also shown what these
    layers of the target read: 0 is the first, and their number what the last one says.
    """

    def prepare(self, target: TargetModel) -> None:
        """Called once, when the target is loaded and before anything is proposed.

        In the thread that loaded the target, not in the proposer's own.

        Raises:
            ConfigError: The proposer does not fit this target; the start ends with it.
        """
        ...


class CachingProposer(HiddenStateProposer, Protocol):
    """A proposer with attention of its own.

    The keys and values of its layers lie in the blocks that requests have anyway: block
    b of a layer is whose block b of the target's cache is. Nobody clears a block, so
    positions that the proposer has not written, since it was not shown them, hold what
    an earlier holder left there.

    Attributes:
        kv_layers: Its layers, once it is prepared.
    """

    kv_layers: Sequence[DraftLayer]

    def bind(self, cache: DraftCache) -> None:
        """Called once, behind `prepare` and before anything is proposed."""
        ...


def wanted_features(proposer: Proposer | None) -> tuple[int, ...]:
    """The target's layers whose input a prepared proposer is to be shown."""
    return tuple(getattr(proposer, "feature_layers", ()))


def has_layers(proposer: Proposer | None) -> TypeGuard[CachingProposer]:
    """Whether a prepared proposer keeps keys and values in the blocks of requests."""
    return bool(getattr(proposer, "kv_layers", ()))


def wants_hidden_states(proposer: Proposer) -> TypeGuard[HiddenStateProposer]:
    """Whether it is shown the target and its hidden states."""
    return bool(getattr(proposer, "needs_hidden_states", False))
