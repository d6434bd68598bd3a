"""Replaces a model's linear layers by quantized ones."""

from collections.abc import Iterator

from torch import nn
from transformers import PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline_kernels.modules.adapting import reads_weights
from hookline_kernels.runtime.weight_pages import give_back_clean_pages
from hookline_quantized.joining import quantized_linear
from hookline_quantized.rounding import can_quantize, quantized
from hookline_quantized.scheme import Bits

_HEAD_BITS = 8
"""Bits of the output layer: its error is not hidden by others."""
_ROUTERS = {"gate", "router"}
"""Layers that choose experts are small, and an error changes the choice."""


def quantize(
    name: str,
    model: PreTrainedModel,
    bits: Bits,
    *,
    may_compile: bool,
    may_be_none: bool = False,
) -> None:
    """Quantizes all linear layers of a model in place, and frees their weights.

    The output layer has 8 bits; an embedding that it was tied to stays as it is.

    Raises:
        ModelLoadError: No layer can be quantized, unless there `may_be_none`.
    """
    head = model.get_output_embeddings()
    count = 0
    for parent, key, linear in list(_linears(model)):
        own = _HEAD_BITS if linear is head else bits.weights
        weight = quantized(linear.weight.detach(), own, bits.activations)
        layer = quantized_linear(
            weight, linear.bias, linear.weight.dtype, may_compile=may_compile
        )
        setattr(parent, key, layer)
        count += 1
    give_back_clean_pages()
    if count == 0 and not may_be_none:
        raise ModelLoadError(name, "it has no linear layers that can be quantized")


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for parent in model.modules():
        if reads_weights(parent):
            continue
        for key, child in parent.named_children():
            if type(child) is not nn.Linear or key in _ROUTERS:
                continue
            if can_quantize(child.weight):
                yield parent, key, child
