"""Requirements that a draft proposer declares to the engine."""

from dataclasses import dataclass

from hookline_drafting.target import DraftLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerCapabilities:
    """Requirements of a proposer; by default token ids only, and chains of drafts.

    `needs_hidden_states` and `draft_parents` are read once, when the proposer is made.
    `feature_layers` and `kv_layers` are read after `prepare`, which may set them.

    Attributes:
        needs_hidden_states: Whether `propose` needs the target's hidden states; the
            proposer must then be a `HiddenStateProposer`.
        draft_parents: For a proposer of trees, the index of each draft's parent, or
            None for a draft that follows the newest token. Drafts come in order of
            depth. None for a proposer of chains.
        feature_layers: Decoder layers of the target whose inputs `propose` needs: 0 is
            the first layer, `TargetModel.num_layers` the output of the last one. Needs
            hidden states.
        kv_layers: The proposer's own attention layers, whose keys and values are kept
            in the KV cache; it must then be a `CachingProposer`.
    """

    needs_hidden_states: bool = False
    draft_parents: tuple[int | None, ...] | None = None
    feature_layers: tuple[int, ...] = ()
    kv_layers: tuple[DraftLayer, ...] = ()
