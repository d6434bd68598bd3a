"""Falcon's attention (Almazrouei et al. 2023): rotary or ALiBi, three head layouts."""

from typing import Any

import torch

from hookline_families.slopes import slopes_of
from hookline_families.slot_module import SlotModule
from hookline_kernels.layers import rotate_reference


class PagedFalconAttention(SlotModule):
    """Replaces `FalconAttention`.

    KV heads are cached once each: `transformers` repeats those of the new architecture
    for every query head.
    """

    def __init__(self, module: Any) -> None:
        """Takes the module's weights."""
        slopes = None
        if module.config.alibi:
            # As `transformers`: in bfloat16, and scaled like the scores.
            slopes = slopes_of(module, module.num_heads).bfloat16().float()
            slopes = slopes * module.inv_norm_factor
        super().__init__(module.layer_idx, module.inv_norm_factor, slopes)
        self.num_heads, self.head_dim = module.num_heads, module.head_dim
        self.num_kv_heads = module.num_kv_heads
        self.query_key_value, self.dense = module.query_key_value, module.dense

    def forward(
        self,
        hidden_states: torch.Tensor,
        *,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        **_: object,
    ) -> tuple[torch.Tensor, None]:
        """[1, T, hidden] → the same, and None for the weights."""
        query, key, value = self._split(self.query_key_value(hidden_states)[0])
        if self.slopes is None:
            angles = position_embeddings[0][0], position_embeddings[1][0]
            query = rotate_reference(query, *angles)
            key = rotate_reference(key, *angles)
        return self.dense(self.attend(query, key, value)), None

    def _split(
        self, fused: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Each KV head follows the query heads that share it."""
        group = self.num_heads // self.num_kv_heads
        heads = fused.unflatten(-1, (self.num_kv_heads, group + 2, self.head_dim))
        return heads[:, :, :-2].flatten(1, 2), heads[:, :, -2], heads[:, :, -1]
