"""Puts Hookline's paged attention under a model of `transformers`.

The function registered with `transformers` is the same for all models; which cache
belongs to which model hangs on the model's own modules, so engines share nothing.
"""

from collections.abc import Callable

import torch
from transformers import AttentionInterface, PreTrainedModel

from hookline.exceptions import ModelLoadError

IMPLEMENTATION = "hookline_paged"

AttentionCall = Callable[..., torch.Tensor]
"""(layer index, query, key, value: [T, heads, head dim], *, scale, window, softcap) →
[T, heads, head dim]."""

KeysAndValues = tuple[torch.Tensor, torch.Tensor, Callable[..., torch.Tensor]]
"""A layer's cache, and what attends over it once a step's are written there."""

_HARMLESS = {
    "cache_position",
    "dropout",
    "is_causal",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "past_key_values",
    "position_ids",
    "return_dict",
    "use_cache",
}


class AttentionSlot:
    """Where a model's attention modules find what attends for them now.

    Attributes:
        attend: Called by every layer.
    """

    attend: AttentionCall

    @classmethod
    def install(cls, model: PreTrainedModel) -> "AttentionSlot":
        """Gives each attention module of the model the same new slot."""
        slot = cls()
        for module in model.modules():
            if hasattr(module, "layer_idx"):
                object.__setattr__(module, "hookline_slot", slot)
        return slot


def hookline_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: object,
) -> tuple[torch.Tensor, None]:
    """Attention as `transformers` calls it: [1, heads, T, head dim] each.

    Returns:
        [1, T, heads, head dim], and no weights.
    """
    unknown = [
        name
        for name, given in others.items()
        if given is not None and name not in _HARMLESS
    ]
    if unknown or attention_mask is not None:
        asked = ", ".join(unknown) or "attention_mask"
        raise ModelLoadError(
            type(module).__name__,
            f"its attention wants {asked}, which is not supported",
        )
    slot: AttentionSlot = module.hookline_slot  # type: ignore[assignment]
    output = slot.attend(
        module.layer_idx,
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=sliding_window,
        softcap=softcap,
    )
    return output[None], None


AttentionInterface.register(IMPLEMENTATION, hookline_attention)
