"""Families whose attention modules are replaced after loading."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AttentionMaskInterface, PreTrainedModel

from hookline_families.bloom import PagedBloomAttention
from hookline_families.falcon import PagedFalconAttention
from hookline_families.mpt import PagedMptAttention
from hookline_models.forwards.attention import IMPLEMENTATION

_MASKED = "hookline_paged_masked"
"""Name under which a model gets a mask that nothing reads, where it needs any."""


@dataclass(frozen=True, slots=True)
class ReplacedFamily:
    """Implements `ModelFamily` for modules that know only attention of `transformers`.

    Attributes:
        module: Name of the attention modules' class.
        make: Makes what takes the place of one.
        needs_mask: The model asks for a mask.
    """

    module: str
    make: Callable[[Any], nn.Module]
    needs_mask: bool = False
    attention = "eager"

    def replace_attention(self, model: PreTrainedModel) -> None:
        """Implements `ModelFamily`."""
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if type(child).__name__ == self.module:
                    setattr(parent, name, self.make(child))
                elif type(child).__name__ == "FalconLinear":
                    setattr(parent, name, _plain(child))
        attention = _MASKED if self.needs_mask else IMPLEMENTATION
        model.config._attn_implementation = attention  # noqa: SLF001


BLOOM = ReplacedFamily("BloomAttention", PagedBloomAttention)
FALCON = ReplacedFamily("FalconAttention", PagedFalconAttention)
MPT = ReplacedFamily("MptAttention", PagedMptAttention, needs_mask=True)


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
