"""Multi-head latent attention (DeepSeek-AI 2024, V2), kept latent in the cache.

A token's cache is its latent vector and one rotated key for all heads, not the keys and
values of each head that `kv_b_proj` makes of it. The projection is absorbed instead:
its key half into the queries, its value half into the attended latents.
"""

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel

from hookline_models.forwards.attention import IMPLEMENTATION as PAGED
from hookline_models.forwards.attention import AttentionSlot, refuse_arguments

IMPLEMENTATION = "hookline_paged_latent"

MODULES = {"DeepseekV2Attention", "DeepseekV3Attention"}
"""Modules that expand latents by a method `expand_kv`, just before they attend."""


class LatentProjection(nn.Module):
    """What was `kv_b_proj`: [heads, plain key dim + value dim, rank]."""

    def __init__(self, module: Any) -> None:
        """Takes the weight of a module of `MODULES`."""
        super().__init__()
        self.dims = [module.qk_nope_head_dim, module.qk_rope_head_dim]
        weight = module.kv_b_proj.weight.data
        heads = weight.view(module.num_heads, -1, module.kv_lora_rank)
        self.weight = nn.Parameter(heads, requires_grad=False)

    def absorb(self, query: torch.Tensor) -> torch.Tensor:
        """[heads, T, plain + rotated dim] → [T, heads, rank + rotated dim]."""
        plain, rotated = query.split(self.dims, -1)
        latent = torch.bmm(plain, self.weight[:, : self.dims[0]])
        return torch.cat((latent, rotated), -1).transpose(0, 1)

    def expand(self, attended: torch.Tensor) -> torch.Tensor:
        """[T, heads, rank] → [T, heads, value dim]."""
        weight = self.weight[:, self.dims[0] :].transpose(1, 2)
        return torch.bmm(attended.transpose(0, 1), weight).transpose(0, 1)


def keep_latent(module: Any) -> None:
    """Changes a module of `MODULES`, which must call `attend_latent` from then on."""
    module.latent = LatentProjection(module)
    del module.kv_b_proj
    module.expand_kv = _joined


class LatentFamily:
    """Implements `ModelFamily` for models whose weights allow it."""

    attention = PAGED

    def replace_attention(self, model: PreTrainedModel) -> None:
        """Changes all modules of latent attention, if their weights are plain."""
        modules: list[Any] = [
            each for each in model.modules() if type(each).__name__ in MODULES
        ]
        if not all(type(each.kv_b_proj) is nn.Linear for each in modules):
            return
        for each in modules:
            keep_latent(each)
        if modules:
            model.config._attn_implementation = IMPLEMENTATION  # noqa: SLF001


LATENT = LatentFamily()


def _joined(
    latent: torch.Tensor, rotated: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns keys [1, 1, T, rank + rotated dim], and the values in them."""
    return torch.cat((latent, rotated), -1), latent


def attend_latent(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    **others: object,
) -> tuple[torch.Tensor, None]:
    """Computes attention for `transformers`.

    Args:
        module: The attention module, changed by `keep_latent`.
        query: [1, heads, T, plain + rotated dim].
        key: [1, 1, T, rank + rotated dim].
        value: [1, 1, T, rank].
        attention_mask: None.
        scaling: Factor of the scores.
        others: Harmless ones.

    Returns:
        [1, T, heads, value dim], and None for the weights.

    Raises:
        ModelLoadError: The model passes an argument that is not supported.
    """
    refuse_arguments(module, attention_mask, others)
    slot: AttentionSlot = module.hookline_slot
    projection: LatentProjection = module.latent
    attended = slot.attend(
        module.layer_idx - slot.first_layer,
        projection.absorb(query[0]),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        scale=scaling,
        window=None,
        softcap=None,
        is_latent=True,
    )
    return projection.expand(attended)[None], None


AttentionInterface.register(IMPLEMENTATION, attend_latent)
