"""What a proposer is told of the target model, once it is loaded."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever reads options or serves needs no torch
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetModel:
    """Weights that drafts can share; in the target's dtype and on its device.

    They are the checkpoint's own: what an output layer adds behind its product (a soft
    cap, a scale) or an embedding behind its table is not in them. Nothing is kept of
    them unless the proposer keeps it.

    Attributes:
        hidden_size: Width of its hidden states.
        vocab_size: Number of token ids.
        embedding: [vocabulary, hidden size].
        output: [vocabulary, hidden size] of the output layer (LM head); the same
            tensor as `embedding` where they are tied.
        output_bias: [vocabulary]; None where it has none.
        num_layers: How many decoder layers it has.
    """

    hidden_size: int
    vocab_size: int
    embedding: "torch.Tensor"
    output: "torch.Tensor"
    output_bias: "torch.Tensor | None" = None
    num_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLayer:
    """A layer of a draft, whose keys and values lie in the blocks of the KV cache.

    Attributes:
        num_heads: Of queries.
        num_kv_heads: Of keys, and of values.
        head_dim: Width of each.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStates:
    """What the target made of some tokens of a request, one after another.

    They are of positions that the last step computed and that are part of the text:
    those of a chunk of the prompt, or the newest token's and those of the accepted
    drafts. Refused drafts have none. Positions that were never computed, because a
    prefix was found in the cache, have none either, and neither have those of steps in
    which the proposer was not asked or did not answer in time, so `start` is not
    always where the last ones ended. After a preemption they come anew.

    Attributes:
        start: Position in the request's tokens of the first.
        final: [tokens, hidden size] after the final norm, which is what the output
            layer reads: the last one is what the newest token was sampled from. In the
            target's dtype and on its device; a view that holds until `propose` returns
            and must not be written to.
        features: [tokens, layers × hidden size] what the layers read that the proposer
            named, side by side in its order; otherwise as `final`. None if it named
            none.
    """

    start: int
    final: "torch.Tensor"
    features: "torch.Tensor | None" = None
