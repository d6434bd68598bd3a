"""A module that attends through the model's slot."""

import torch
from torch import nn

from hookline_models.forwards.attention import AttentionSlot


class SlotModule(nn.Module):
    """Base of attention modules that call the slot themselves.

    Attributes:
        layer_idx: Index of the layer.
        scale: Factor of the scores.
        slopes: [heads] float32, of ALiBi; None without.
    """

    hookline_slot: AttentionSlot

    def __init__(
        self, layer_idx: int, scale: float, slopes: torch.Tensor | None = None
    ) -> None:
        super().__init__()
        self.layer_idx, self.scale = layer_idx, scale
        self.register_buffer("slopes", slopes, persistent=False)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """[T, heads, dim] each → [1, T, heads · dim]."""
        slopes = self.slopes
        assert slopes is None or isinstance(slopes, torch.Tensor)
        attended = self.hookline_slot.attend(
            self.layer_idx - self.hookline_slot.first_layer,
            query,
            key,
            value,
            scale=self.scale,
            window=None,
            softcap=None,
            slopes=slopes,
        )
        return attended.flatten(1)[None]
