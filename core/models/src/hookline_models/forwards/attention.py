"""Registers Hookline's paged attention with `transformers`.

All models share one registered function; each model's modules hold the slot with their
own cache, so that engines share nothing.
"""

from collections.abc import Callable, Mapping

import torch
from transformers import AttentionInterface, PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline_models.forwards.layer_span import span_of

IMPLEMENTATION = "hookline_paged"

AttentionCall = Callable[..., torch.Tensor]
"""(layer index, query, key, value: [T, heads, head dim], *, scale, window, softcap,
sinks = None, slopes = None: [heads], is_latent = False) → [T, heads, value dim]. If it
is latent, values are the first numbers of the keys and are not cached apart."""

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
    """Holds the attention that a model's modules call.

    Attributes:
        attend: Called by every layer; replaced when another cache is bound. Layers are
            counted from the first one of the model's pipeline stage.
        first_layer: Index of that layer in the whole model.
    """

    attend: AttentionCall

    def __init__(self, first_layer: int = 0) -> None:
        self.first_layer = first_layer

    @classmethod
    def install(cls, model: PreTrainedModel) -> "AttentionSlot":
        """Adds one new slot to all attention modules of the model."""
        slot = cls(span_of(model).start)
        for module in model.modules():
            if hasattr(module, "layer_idx"):
                object.__setattr__(module, "hookline_slot", slot)
        return slot


def refuse_arguments(
    module: torch.nn.Module,
    attention_mask: torch.Tensor | None,
    others: Mapping[str, object],
) -> None:
    """Raises `ModelLoadError` for arguments of attention that would be ignored."""
    unknown = [
        name
        for name, given in others.items()
        if given is not None and name not in _HARMLESS
    ]
    if unknown or attention_mask is not None:
        asked = ", ".join(unknown) or "attention_mask"
        raise ModelLoadError(
            type(module).__name__,
            f"its attention needs {asked}, which is not supported",
        )


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
    s_aux: torch.Tensor | None = None,
    **others: object,
) -> tuple[torch.Tensor, None]:
    """Computes attention for `transformers`; inputs are [1, heads, T, head dim].

    Returns:
        [1, T, heads, head dim], and None for the weights.

    Raises:
        ModelLoadError: The model passes an argument that is not supported.
    """
    if attention_mask is not None or others.keys() - _HARMLESS:
        refuse_arguments(module, attention_mask, others)
    slot: AttentionSlot = module.hookline_slot  # type: ignore[assignment]
    layer_index: int = module.layer_idx  # type: ignore[assignment]
    output = slot.attend(
        layer_index - slot.first_layer,
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=sliding_window,
        softcap=softcap,
        sinks=s_aux,
    )
    return output[None], None


AttentionInterface.register(IMPLEMENTATION, hookline_attention)
