"""The target model and its hidden states, as proposers see them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # parsing options does not need torch
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetModel:
    """Weights that drafts can share; in the target's dtype and on its device.

    They are the checkpoint's weights, without what the model applies after them (a
    soft cap, a scale of embeddings).

    Attributes:
        hidden_size: Size of its hidden states.
        vocab_size: Number of token ids.
        embedding: [vocabulary, hidden size].
        output: [vocabulary, hidden size] of the output layer (LM head); the same
            tensor as `embedding` where they are tied.
        output_bias: [vocabulary], or None.
        num_layers: Number of decoder layers.
    """

    hidden_size: int
    vocab_size: int
    embedding: "torch.Tensor"
    output: "torch.Tensor"
    output_bias: "torch.Tensor | None" = None
    num_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLayer:
    """An attention layer of a proposer, with keys and values in the KV cache.

    Attributes:
        num_heads: Number of query heads.
        num_kv_heads: Number of key and value heads.
        head_dim: Size of a head.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStates:
    """The target's hidden states at consecutive positions of a request.

    The positions are those that the last step computed and kept: a chunk of the prompt,
    or the newest token and the accepted drafts. Rejected drafts have none. Neither have
    positions that were not computed (cached prefixes) or were computed while the
    proposer was not called or late, so `start` may lie behind the end of the previous
    states. After a preemption the states are sent again.

    Attributes:
        start: Position of the first state in the request's tokens.
        final: [tokens, hidden size] after the final norm: the input of the output
            layer. The newest token was sampled from the last one. In the target's dtype
            and on its device; a read-only view, valid until `propose` returns.
        features: [tokens, layers × hidden size] the inputs of `feature_layers`,
            concatenated in their order; otherwise like `final`. None without them.
    """

    start: int
    final: "torch.Tensor"
    features: "torch.Tensor | None" = None
