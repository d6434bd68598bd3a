"""MPT's attention (MosaicML 2023): ALiBi, and clipped queries, keys and values."""

from typing import Any

import torch

from hookline_families.slopes import slopes_of
from hookline_families.slot_module import SlotModule


class PagedMptAttention(SlotModule):
    """Replaces `MptAttention`."""

    def __init__(self, module: Any) -> None:
        """Takes the module's weights."""
        super().__init__(
            module.layer_idx, module.softmax_scale, slopes_of(module, module.n_heads)
        )
        self.num_heads, self.head_dim = module.n_heads, module.head_dim
        self.most: float | None = module.clip_qkv or None
        self.Wqkv, self.out_proj = module.Wqkv, module.out_proj

    def forward(
        self, hidden_states: torch.Tensor, **_: object
    ) -> tuple[torch.Tensor, None]:
        """[1, T, hidden] → the same, and None for the weights."""
        fused = self.Wqkv(hidden_states)[0]
        if self.most is not None:
            fused = fused.clamp(-self.most, self.most)
        heads = fused.unflatten(-1, (3, self.num_heads, self.head_dim))
        return self.out_proj(self.attend(*heads.unbind(1))), None
