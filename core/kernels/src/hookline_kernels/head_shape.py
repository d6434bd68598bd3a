"""The shape and norms of a layer's attention heads."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """The heads of a layer.

    Attributes:
        num_heads: Number of query heads.
        num_kv_heads: Number of KV heads.
        dim: Width of each head, even.
        block_size: Tokens in a block of the cache.
        dtype: Of the heads.
        cache_dtype: Of the cache; None is that of the heads.
    """

    num_heads: int
    num_kv_heads: int
    dim: int
    block_size: int
    dtype: torch.dtype
    cache_dtype: torch.dtype | None = None

    @property
    def width(self) -> int:
        """Numbers of one token's queries, keys and values together."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.dim


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """RMSNorms of the query heads and key heads.

    Attributes:
        query: [dim] weight.
        key: [dim] weight.
        epsilon: Added to the mean square in both.
    """

    query: torch.Tensor
    key: torch.Tensor
    epsilon: float
