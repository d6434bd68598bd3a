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
        sinks: [heads] float32, one score a head that takes its share of the weights,
            but has no value (Xiao et al. 2023, Streaming-LLM); None without.
        slopes: [heads] float32; scores grow by slope · (key's position - query's
            position) (Press et al. 2021, ALiBi); None without.
    """

    keys: torch.Tensor
    values: torch.Tensor
    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    slopes: torch.Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether scores are scaled products, and nothing else takes weight."""
        return self.softcap is None and self.sinks is None and self.slopes is None


Attend = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, AttentionLayer, AttentionMetadata],
    torch.Tensor,
]
"""(query [T, heads, key dim], key [T, KV heads, key dim], value [T, KV heads, value
dim], layer, batch) → [T, heads, value dim]: causal attention of each token over its own
request's part of the paged cache."""
