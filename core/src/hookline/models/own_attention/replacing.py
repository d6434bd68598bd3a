"""Replaces attention modules after loading."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from transformers import AttentionMaskInterface, PreTrainedModel

from hookline.models.attention import IMPLEMENTATION
from hookline.models.own_attention import latent
from hookline.models.own_attention.bloom import PagedBloomAttention
from hookline.models.own_attention.falcon import PagedFalconAttention
from hookline.models.own_attention.mpt import PagedMptAttention

_MASKED = "hookline_paged_masked"
"""Name under which a model gets a mask that nothing reads, where it needs any."""

_REPLACEMENTS: Mapping[str, Callable[[Any], nn.Module]] = {
    "BloomAttention": PagedBloomAttention,
    "FalconAttention": PagedFalconAttention,
    "MptAttention": PagedMptAttention,
}
_NEEDS_MASK = {"mpt"}


def implementation_to_load(model_type: str, attention: str) -> str:
    """Returns the attention implementation to load a model with.

    Families whose modules are replaced know only those of `transformers`.
    """
    is_own = attention == IMPLEMENTATION and model_type in {"bloom", "falcon", "mpt"}
    return "eager" if is_own else attention


def replace_attention(model: PreTrainedModel) -> None:
    """Replaces the attention modules that do not call a registered function."""
    own = latent.IMPLEMENTATION if _keeps_latents(model) else IMPLEMENTATION
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if (make := _REPLACEMENTS.get(type(child).__name__)) is not None:
                setattr(parent, name, make(child))
            elif type(child).__name__ == "FalconLinear":
                setattr(parent, name, _plain(child))
    needs_mask = model.config.model_type in _NEEDS_MASK
    model.config._attn_implementation = _MASKED if needs_mask else own  # noqa: SLF001


def _keeps_latents(model: PreTrainedModel) -> bool:
    """Changes all modules of latent attention, if their weights allow."""
    modules: list[Any] = [
        each for each in model.modules() if type(each).__name__ in latent.MODULES
    ]
    if not all(type(each.kv_b_proj) is nn.Linear for each in modules):
        return False
    for each in modules:
        latent.keep_latent(each)
    return bool(modules)


def _plain(linear: nn.Module) -> nn.Linear:
    """A linear layer that rounds once, with the weights of one that rounds twice."""
    parameters = dict(linear.named_parameters())
    weight = parameters["weight"]
    plain = nn.Linear(1, 1, bias=False, device="meta")
    plain.out_features, plain.in_features = weight.shape
    plain.register_parameter("weight", nn.Parameter(weight, requires_grad=False))
    plain.register_parameter("bias", parameters.get("bias"))
    return plain


def _unread_mask(**_: object) -> torch.Tensor:
    return torch.zeros(1, 1, 1, 1, dtype=torch.bool)


AttentionMaskInterface.register(_MASKED, _unread_mask)
