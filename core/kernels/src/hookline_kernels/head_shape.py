"""The heads of a layer's attention, as kernels must know them."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Of the heads of a layer.

    Attributes:
        num_heads: Of queries.
        num_kv_heads: Of keys, and of values.
        dim: Width of each, even.
        block_size: Tokens a block of the cache.
        dtype: Of all numbers.
    """

    num_heads: int
    num_kv_heads: int
    dim: int
    block_size: int
    dtype: torch.dtype

    @property
    def width(self) -> int:
        """Numbers of one token's queries, keys and values."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.dim


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """RMSNorm of each query head and each key head.

    Attributes:
        query: [dim] weight.
        key: Likewise.
        epsilon: Of both.
    """

    query: torch.Tensor
    key: torch.Tensor
    epsilon: float
