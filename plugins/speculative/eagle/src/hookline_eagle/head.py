"""The network that drafts: one decoder layer behind a product that fuses its input.

EAGLE (Li et al. 2024, arXiv 2401.15077) reads a token's embedding and the feature of
the token before it, which is what the target's output layer reads, and says the next
feature. EAGLE-3 (Li et al. 2025, arXiv 2503.01840) reads what three layers of the
target say, norms both inputs, and has an output layer of its own. Modules are named as
the projects' checkpoints name them, so a head's state dict is such a checkpoint.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from hookline.spec_decode import TargetModel

Sides = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, [..., 1, head dim] each."""

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Queries, keys and values [..., heads, head dim], turned, → what is attended to."""

Output = Callable[[torch.Tensor], torch.Tensor]
"""An output layer: [..., hidden size] → [..., vocabulary]."""

NUM_FEATURES = 3
"""Layers of the target that an EAGLE-3 head reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """What a head is built as.

    Attributes:
        is_third: Of EAGLE-3; else of EAGLE.
        hidden_size: Its own width.
        target_size: Width of the target's hidden states.
        num_heads: Of queries.
        num_kv_heads: Of keys, and of values.
        head_dim: Of each.
        intermediate_size: Of the feed-forward layer.
        vocab_size: Of the target.
        draft_vocab_size: Of its own output layer; of EAGLE the target's.
        epsilon: Of its norms.
        fusing_bias: Whether the first product has one; likewise the others.
        attention_bias: Of queries, keys and values.
        output_bias: Of attention's output.
        norms_residual: What is added behind attention is normed, too (EAGLE-3).
        own_embedding: It does not share the target's.
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
        """Numbers that the first product reads."""
        if self.is_third:
            return NUM_FEATURES * self.target_size
        return 2 * self.hidden_size


class Norm(nn.Module):
    """RMSNorm in the dtype of what it norms, which is not always that of its weight."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = epsilon

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        weight = self.weight.to(values.dtype)
        return functional.rms_norm(values, weight.shape, weight, self.eps)


class Attention(nn.Module):
    """Its four products; what attends is the caller's."""

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
    """A layer of Llama; of EAGLE without the first norm, of EAGLE-3 with two."""

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
        """What attention reads, and what its output is added to."""
        hidden = residual + self.self_attn(read, angles, attend)
        found: torch.Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return found


class Head(nn.Module):
    """Says features, and what they mean in tokens.

    Attributes:
        shape: What it is built as.
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
        """[...] int64 → [..., hidden size], of its own table or the target's."""
        own = self.shape.own_embedding
        table = self.embed_tokens.weight if own else shared
        return functional.embedding(token_ids, table)

    def fused(self, told: torch.Tensor) -> torch.Tensor:
        """What the target says, [..., fused or hidden size] → features it can read."""
        if not self.shape.is_third:
            return told
        found: torch.Tensor = self.fc(told)
        return found

    def forward(
        self,
        embedded: torch.Tensor,
        features: torch.Tensor,
        angles: Sides,
        attend: Attend,
    ) -> torch.Tensor:
        """The features that come next.

        Args:
            embedded: [..., hidden size] of tokens.
            features: [..., hidden size] of the tokens before these: fused, or said by
                itself.
            angles: Of the features' positions.
            attend: Over these and the positions before.

        Returns:
            [..., hidden size], of these tokens.
        """
        if not self.shape.is_third:
            hidden = self.fc(torch.cat((embedded, features), -1))
            found: torch.Tensor = self.layers[0](hidden, hidden, angles, attend)
            return found
        layer = self.midlayer
        normed = layer.hidden_norm(features)
        residual = normed if self.shape.norms_residual else features
        read = torch.cat((layer.input_layernorm(embedded), normed), -1)
        said: torch.Tensor = layer(read, residual, angles, attend)
        return said

    def logits(self, shared: Output, features: torch.Tensor) -> torch.Tensor:
        """[..., hidden size] that it said → [..., draft vocabulary].

        By its own output layer, or the target's.
        """
        if not self.shape.is_third:
            return shared(features)
        found: torch.Tensor = self.lm_head(self.norm(features))
        return found

    def tokens(self, drafted: torch.Tensor) -> torch.Tensor:
        """Ids of the draft vocabulary → the target's."""
        if not self.shape.is_third:
            return drafted
        offsets = self.get_buffer("d2t")
        return drafted + offsets[drafted]


def output_of(target: TargetModel) -> Output:
    """The target's output layer."""
    return partial(functional.linear, weight=target.output, bias=target.output_bias)


def angles_at(positions: torch.Tensor, table: Sides) -> Sides:
    """[...] int64 positions → cosines and sines for `Head`."""
    cosines, sines = table
    return cosines[positions].unsqueeze(-2), sines[positions].unsqueeze(-2)


def _turned(heads: torch.Tensor, angles: Sides) -> torch.Tensor:
    """Rotary embedding (Su et al. 2021), the halves of a head as pairs."""
    cosines, sines = angles
    first, second = heads.chunk(2, -1)
    return heads * cosines + torch.cat((-second, first), -1) * sines
