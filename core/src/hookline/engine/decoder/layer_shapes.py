"""What a model's layers are to a cache: shapes of keys and values, and attention."""

from dataclasses import dataclass

import torch

from hookline_kernels import Attend, AttentionLayer
from hookline_kernels.layout import page_bytes

KeysAndValues = tuple[torch.Tensor, torch.Tensor, Attend]
"""A layer's keys and values, and attention over them once a step's are written."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Shape of one layer's KV cache, and its number of query heads.

    Attributes:
        num_heads: Number of query heads.
        num_kv_heads: Number of KV heads.
        key_dim: Size of a key of one head.
        value_dim: Size of a value of one head.
        is_latent: Values are the keys' first numbers, and have no memory of their own.
    """

    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    is_latent: bool = False

    @property
    def products_per_pair(self) -> int:
        """Multiply-adds of one query with one key and its value, over all heads."""
        return self.num_heads * (self.key_dim + self.value_dim)

    def bytes_per_block(self, block_size: int, dtype: torch.dtype) -> int:
        """Returns the bytes of keys and values of a block, with their scales."""
        dims = (self.key_dim,) if self.is_latent else (self.key_dim, self.value_dim)
        return self.num_kv_heads * sum(
            page_bytes(block_size, dim, dtype) for dim in dims
        )


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """Attention parameters of one layer.

    Attributes:
        scale: Factor of the scores.
        window: Number of tokens that a token attends to, itself included; None is all.
        softcap: Scores become softcap · tanh(score ÷ softcap); None disables it.
        sinks: Of `AttentionLayer`, by head.
        slopes: Of `AttentionLayer`, by head.
    """

    scale: float
    window: int | None
    softcap: float | None
    sinks: tuple[float, ...] | None = None
    slopes: tuple[float, ...] | None = None

    def over(self, keys: torch.Tensor, values: torch.Tensor) -> AttentionLayer:
        """Returns the layer over its part of a cache."""
        sinks, slopes = (
            None if side is None else torch.tensor(side, device=keys.device)
            for side in (self.sinks, self.slopes)
        )
        return AttentionLayer(
            keys, values, self.scale, self.window, self.softcap, sinks, slopes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayers:
    """The layers of a model, or of one pipeline stage of it.

    Attributes:
        layers: Shape of each layer's KV cache, in order.
        attention: How each layer attends.
    """

    layers: tuple[LayerCache, ...]
    attention: tuple[LayerAttention, ...]
