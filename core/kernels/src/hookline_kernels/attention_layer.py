"""An attention layer as an argument of kernels."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hookline_kernels.metadata import AttentionMetadata


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """A layer's part of the KV cache, and how the layer scores.

    Made once, when a cache is bound; all steps pass the same object.

    Attributes:
        keys: [blocks, block size, KV heads, key dim], of `layout.new_keys`.
        values: [blocks, block size, KV heads, value dim], of `layout.new_values`.
        scale: Factor of the scores.
        window: Number of tokens that a token attends to, itself included; None is
            unlimited.
        softcap: Scores become softcap · tanh(score ÷ softcap); None leaves them as
            they are.
    """

    keys: torch.Tensor
    values: torch.Tensor
    scale: float
    window: int | None = None
    softcap: float | None = None


Attend = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, AttentionLayer, AttentionMetadata],
    torch.Tensor,
]
"""(query [T, heads, key dim], key [T, KV heads, key dim], value [T, KV heads, value
dim], layer, batch) → [T, heads, value dim]: causal attention of each token over its own
request's part of the paged cache."""
