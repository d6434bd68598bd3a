"""The draft network: a linear layer that fuses the inputs, and one decoder layer.

EAGLE (Li et al. 2024, arXiv 2401.15077) reads a token's embedding and the feature (the
input of the target's output layer) of the token before it, and predicts the next
feature. EAGLE-3 (Li et al. 2025, arXiv 2503.01840) reads hidden states of three target
layers, normalises both inputs, and has a separate output layer. Modules have the names
of the projects' checkpoints, so a head's state dict is such a checkpoint.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from hookline_drafting import TargetModel

Sides = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, [..., 1, head dim] each."""

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Attention: rotated queries and keys, and values, [..., heads, head dim] each."""

Output = Callable[[torch.Tensor], torch.Tensor]
"""An output layer: [..., hidden size] → [..., vocabulary]."""

NUM_FEATURES = 3
"""Number of target layers that an EAGLE-3 head reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Sizes and variants of a head.

    Attributes:
        is_third: Whether it is an EAGLE-3 head; otherwise EAGLE.
        hidden_size: Width of the head.
        target_size: Width of the target's hidden states.
        num_heads: Number of query heads.
        num_kv_heads: Number of key heads, and of value heads.
        head_dim: Size of an attention head.
        intermediate_size: Size of the feed-forward layer.
        vocab_size: Size of the target's vocabulary.
        draft_vocab_size: Size of the output layer's vocabulary.
        epsilon: Epsilon of the norms.
        fusing_bias: Whether `fc` has a bias.
        attention_bias: Whether queries, keys and values have a bias.
        output_bias: Whether attention's output has a bias.
        norms_residual: Whether the residual of attention is normalised (EAGLE-3).
        own_embedding: Whether it has its own embedding instead of the target's.
    """

    is_third: bool
    hidden_size: int
    target_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    draft_vocab_size: int
    epsilon: float
    fusing_bias: bool = False
    attention_bias: bool = False
    output_bias: bool = False
    norms_residual: bool = False
    own_embedding: bool = False

    @property
    def fused_size(self) -> int:
        """Input size of `fc`."""
        if self.is_third:
            return NUM_FEATURES * self.target_size
        return 2 * self.hidden_size


class Norm(nn.Module):
    """RMSNorm in the dtype of its input, which may differ from its weight's."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = epsilon

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        weight = self.weight.to(values.dtype)
        return functional.rms_norm(values, weight.shape, weight, self.eps)


class Attention(nn.Module):
    """The projections around attention, which the caller provides."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self._shape = shape
        width = shape.hidden_size
        read = 2 * width if shape.is_third else width
        heads, kv_heads = (
            count * shape.head_dim for count in (shape.num_heads, shape.num_kv_heads)
        )
        self.q_proj = nn.Linear(read, heads, bias=shape.attention_bias)
        self.k_proj = nn.Linear(read, kv_heads, bias=shape.attention_bias)
        self.v_proj = nn.Linear(read, kv_heads, bias=shape.attention_bias)
        self.o_proj = nn.Linear(heads, width, bias=shape.output_bias)

    def forward(
        self, values: torch.Tensor, angles: Sides, attend: Attend
    ) -> torch.Tensor:
        dim = self._shape.head_dim
        query, key, value = (
            product(values).unflatten(-1, (-1, dim))
            for product in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = attend(_turned(query, angles), _turned(key, angles), value)
        found: torch.Tensor = self.o_proj(attended.flatten(-2))
        return found


class FeedForward(nn.Module):
    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        width, inner = shape.hidden_size, shape.intermediate_size
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        gate = self.act_fn(self.gate_proj(values))
        found: torch.Tensor = self.down_proj(gate * self.up_proj(values))
        return found


class Layer(nn.Module):
    """A Llama layer; EAGLE's has no input norm, EAGLE-3's has two."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        width, epsilon = shape.hidden_size, shape.epsilon
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.post_attention_layernorm = Norm(width, epsilon)
        if shape.is_third:
            self.input_layernorm = Norm(width, epsilon)
            self.hidden_norm = Norm(width, epsilon)

    def forward(
        self,
        read: torch.Tensor,
        residual: torch.Tensor,
        angles: Sides,
        attend: Attend,
    ) -> torch.Tensor:
        """Applies the layer; `read` is attention's input, `residual` is added to it."""
        hidden = residual + self.self_attn(read, angles, attend)
        found: torch.Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return found


class Head(nn.Module):
    """Predicts features and the tokens that they stand for.

    Attributes:
        shape: Sizes and variants of the head.
    """

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.hidden_size
        self.fc = nn.Linear(shape.fused_size, width, bias=shape.fusing_bias)
        if shape.own_embedding:
            self.embed_tokens = nn.Embedding(shape.vocab_size, width)
        if shape.is_third:
            self.midlayer = Layer(shape)
            self.norm = Norm(width, shape.epsilon)
            self.lm_head = nn.Linear(width, shape.draft_vocab_size, bias=False)
            offsets = torch.zeros(shape.draft_vocab_size, dtype=torch.int64)
            self.register_buffer("d2t", offsets)
            known = torch.arange(shape.vocab_size) < shape.draft_vocab_size
            self.register_buffer("t2d", known)
        else:
            self.layers = nn.ModuleList([Layer(shape)])

    def embed(self, shared: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
        """Embeds [...] int64 → [..., hidden size], by its own table or `shared`."""
        own = self.shape.own_embedding
        table = self.embed_tokens.weight if own else shared
        return functional.embedding(token_ids, table)

    def fused(self, states: torch.Tensor) -> torch.Tensor:
        """Converts the target's states [..., fused or hidden size] to features."""
        if not self.shape.is_third:
            return states
        found: torch.Tensor = self.fc(states)
        return found

    def forward(
        self,
        embedded: torch.Tensor,
        features: torch.Tensor,
        angles: Sides,
        attend: Attend,
    ) -> torch.Tensor:
        """Predicts the features of tokens.

        Args:
            embedded: [..., hidden size] embeddings of the tokens.
            features: [..., hidden size] features of the preceding tokens, from `fused`
                or an earlier call.
            angles: Cosines and sines of the features' positions.
            attend: Attention over these and all earlier positions.

        Returns:
            [..., hidden size] features of the tokens.
        """
        if not self.shape.is_third:
            hidden = self.fc(torch.cat((embedded, features), -1))
            found: torch.Tensor = self.layers[0](hidden, hidden, angles, attend)
            return found
        layer = self.midlayer
        normed = layer.hidden_norm(features)
        residual = normed if self.shape.norms_residual else features
        read = torch.cat((layer.input_layernorm(embedded), normed), -1)
        predicted: torch.Tensor = layer(read, residual, angles, attend)
        return predicted

    def logits(self, shared: Output, features: torch.Tensor) -> torch.Tensor:
        """Maps features [..., hidden size] to logits [..., draft vocabulary].

        EAGLE uses the target's output layer, EAGLE-3 its own.
        """
        if not self.shape.is_third:
            return shared(features)
        found: torch.Tensor = self.lm_head(self.norm(features))
        return found

    def tokens(self, drafted: torch.Tensor) -> torch.Tensor:
        """Maps ids of the draft vocabulary to the target's."""
        if not self.shape.is_third:
            return drafted
        offsets = self.get_buffer("d2t")
        return drafted + offsets[drafted]


def output_of(target: TargetModel) -> Output:
    """Returns the target's output layer."""
    return partial(functional.linear, weight=target.output, bias=target.output_bias)


def angles_at(positions: torch.Tensor, table: Sides) -> Sides:
    """Returns cosines and sines of int64 positions [...] for `Head`."""
    cosines, sines = table
    return cosines[positions].unsqueeze(-2), sines[positions].unsqueeze(-2)


def _turned(heads: torch.Tensor, angles: Sides) -> torch.Tensor:
    """Applies rotary embedding (Su et al. 2021), pairing the halves of a head."""
    cosines, sines = angles
    first, second = heads.chunk(2, -1)
    return heads * cosines + torch.cat((-second, first), -1) * sines
