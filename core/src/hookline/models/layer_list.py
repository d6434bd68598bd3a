"""Finds the list of layers in a model of `transformers`."""

from torch import nn
from transformers import PreTrainedModel

_NAMES = ("layers", "h", "blocks")


def layers_of(model: PreTrainedModel) -> nn.ModuleList | None:
    """Returns the decoder's layers; None if no list has a name that families share."""
    children = dict(model.get_decoder().named_children())
    layers = next((children[name] for name in _NAMES if name in children), None)
    return layers if isinstance(layers, nn.ModuleList) else None
