"""Quantization method `sample`: rounds the weights of linear layers to 8 bits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hookline import hookimpl
from hookline_models.quantization import (
    QuantizationContext,
    ReadTensor,
    StoredTensor,
    StoredWeights,
)

if TYPE_CHECKING:  # torch is imported when a model is loaded
    import torch
    from transformers import PreTrainedModel

STEPS = 127
"""Number of steps from 0 to the largest weight of a row."""


class SampleMethod:
    """Keeps weights as they are stored, and rounds them in place."""

    def activation_dtype(
        self, dtype: "torch.dtype", device: "torch.device"
    ) -> "torch.dtype":
        """Computes in the data type that was asked for."""
        del device
        return dtype

    def read(
        self, weights: StoredWeights, dtype: "torch.dtype"
    ) -> Mapping[str, ReadTensor]:
        """Reads plain weights."""
        del dtype
        return weights.own

    def fill(
        self, model: "PreTrainedModel", *, may_compile: bool, reads_all: bool
    ) -> None:
        """Has no layers of its own."""

    def use_cache_scales(
        self,
        model: "PreTrainedModel",
        tensors: Mapping[str, StoredTensor],
        cache_dtype: "torch.dtype | None",
    ) -> None:
        """Knows no scales."""

    def quantize(self, model: "PreTrainedModel", *, may_compile: bool) -> None:
        """Rounds each row of a linear layer to multiples of its largest weight."""
        del may_compile
        from torch import nn, no_grad  # noqa: PLC0415

        with no_grad():
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    weight = module.weight
                    step = weight.abs().amax(-1, keepdim=True).clamp_min(1e-8) / STEPS
                    weight.copy_((weight / step).round() * step)


@hookimpl
def create_quantization_method(context: QuantizationContext) -> SampleMethod:
    """Called for each model that names the method."""
    del context
    return SampleMethod()
