"""The interface of draft proposers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from hookline.sampling_values import SamplingValues
from hookline_drafting.capabilities import ProposerCapabilities
from hookline_drafting.draft_cache import DraftCache
from hookline_drafting.target import HiddenStates, TargetModel

if TYPE_CHECKING:  # parsing options does not need numpy
    import numpy as np
    import numpy.typing as npt

FloatMatrix: TypeAlias = "Sequence[Sequence[float]] | npt.NDArray[np.float32]"
"""[drafts, vocabulary] probabilities; anything that numpy converts to such an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """One request of the step that has just run.

    Attributes:
        request_id: Internal id; the same until `release` is called for it.
        token_ids: [tokens] int32 prompt and output so far: a read-only view, valid
            until `propose` returns. Between calls it grows by one token or more; its
            beginning never changes.
        max_drafts: Maximum number of drafts. 0 if none are needed, which only
            proposers see that need hidden states (for prompts that are being
            computed, or have just been) or have layers (for any request, also one
            that is about to finish, whose blocks others may reuse).
        params: Sampling parameters.
        hidden_states: The target's, at the request's new positions; None unless the
            proposer needs them.
        block_ids: [blocks] int32, the KV blocks with its computed tokens, in order;
            None unless the proposer has layers.
    """

    request_id: int
    token_ids: "npt.NDArray[np.int32]"
    max_drafts: int
    params: SamplingValues
    hidden_states: HiddenStates | None = None
    block_ids: "npt.NDArray[np.int32] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Up to `max_drafts` tokens for one request.

    Attributes:
        token_ids: The drafts, in order; may be empty.
        probabilities: The distribution that each was drawn from; None for
            deterministic drafts (a one-hot distribution).
    """

    token_ids: "Sequence[int] | npt.NDArray[np.int32]"
    probabilities: "FloatMatrix | None" = None


class Proposer(Protocol):
    """Guesses the next tokens of running requests.

    The engine calls `propose` and `release` from one thread that no other plugin uses.
    """

    @property
    def capabilities(self) -> ProposerCapabilities:
        """Requirements of the proposer; may be a plain attribute."""
        ...

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Drafts]:
        """Returns one `Drafts` for each request, in order; must not change its input.

        If it raises, the step runs without drafts and the failure is counted.
        """
        ...

    def release(self, request_ids: Sequence[int]) -> None:
        """Forgets requests that finished or were preempted; some may be unknown."""
        ...


class HiddenStateProposer(Proposer, Protocol):
    """A proposer that drafts from the target's hidden states.

    Its capabilities have `needs_hidden_states`. It is also called for requests that it
    cannot draft for yet (`max_drafts` 0).
    """

    def prepare(self, target: TargetModel) -> None:
        """Called once, after the target is loaded and before the first `propose`.

        Runs in the thread that loaded the target, not in the proposer's.

        Raises:
            ConfigError: The proposer does not fit this target; the start ends with it.
        """
        ...


class CachingProposer(HiddenStateProposer, Protocol):
    """A proposer with its own attention layers.

    Its capabilities have `kv_layers`. Their keys and values are kept in the KV cache
    under the requests' block tables: a request that holds block b of the target's
    layers holds block b of these layers, too. Blocks are never cleared, so a position
    that the proposer has not written has stale content.
    """

    def bind(self, cache: DraftCache) -> None:
        """Called once, after `prepare` and before the first `propose`."""
        ...


def feature_layers_of(proposer: Proposer | None) -> tuple[int, ...]:
    """Returns the target's layers whose inputs a prepared proposer needs."""
    return () if proposer is None else proposer.capabilities.feature_layers


def has_layers(proposer: Proposer | None) -> TypeGuard[CachingProposer]:
    """Whether a prepared proposer keeps keys and values in the KV cache."""
    return proposer is not None and bool(proposer.capabilities.kv_layers)


def needs_hidden_states(proposer: Proposer) -> TypeGuard[HiddenStateProposer]:
    """Whether a proposer needs the target's hidden states."""
    return proposer.capabilities.needs_hidden_states
