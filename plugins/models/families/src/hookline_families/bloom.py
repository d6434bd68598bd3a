"""Bloom's attention (BigScience 2022): ALiBi, and a residual inside of the module."""

from typing import Any

import torch

from hookline_families.slopes import slopes_of
from hookline_families.slot_module import SlotModule


class PagedBloomAttention(SlotModule):
    """Replaces `BloomAttention`."""

    def __init__(self, module: Any) -> None:
        """Takes the module's weights."""
        super().__init__(
            module.layer_idx,
            module.inv_norm_factor,
            slopes_of(module, module.num_heads),
        )
        self.num_heads, self.head_dim = module.num_heads, module.head_dim
        self.query_key_value, self.dense = module.query_key_value, module.dense

    def forward(
        self, hidden_states: torch.Tensor, residual: torch.Tensor, **_: object
    ) -> tuple[torch.Tensor, None]:
        """[1, T, hidden] each → [1, T, hidden], and None for the weights."""
        fused = self.query_key_value(hidden_states)[0]
        heads = fused.unflatten(-1, (self.num_heads, 3, self.head_dim))
        attended = self.attend(*heads.unbind(2))
        return self.dense(attended) + residual, None
