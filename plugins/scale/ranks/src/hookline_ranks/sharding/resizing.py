"""Models whose modules are cut after they are made, before any weight is read.

Their families take the sizes of heads and layers from the model's width, which all
ranks have in common, so that no configuration describes one rank's part.
"""

from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from hookline_ranks.sharding.division import Division
from hookline_ranks.sharding.split import units_of

_QUERY_HEADS, _KV_HEADS = ("num_heads", "n_heads"), ("num_kv_heads",)


def resized(kind: type[PreTrainedModel], division: Division) -> type[PreTrainedModel]:
    """Returns a class that makes models of one rank's sizes.

    `transformers` finds what it knows of a class by its name and module, which stay.
    """

    def initialize(
        self: Any, config: PreTrainedConfig, *given: Any, **named: Any
    ) -> None:
        kind.__init__(self, config, *given, **named)
        _resize(self, division)

    members = {"__init__": initialize, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), members)


def _resize(model: PreTrainedModel, division: Division) -> None:
    _cut_parameters(model, division)
    for layer in model.get_decoder().modules():
        if hasattr(layer, "layer_idx"):
            _cut_heads(layer, division)
    embedding = model.get_input_embeddings()
    assert isinstance(embedding, nn.Embedding)
    embedding.padding_idx = None  # may be another rank's


def _cut_parameters(model: PreTrainedModel, division: Division) -> None:
    """Replaces parameters, none of which has numbers yet."""
    for prefix, module in model.named_modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            cut = division.plan.cut(f"{prefix}.{name}", weight.shape)
            if cut.pieces is not None:
                part = weight.new_empty(cut.shape(weight.shape), device="meta")
                setattr(module, name, nn.Parameter(part, requires_grad=False))
                if hasattr(module, "nf"):  # outputs of a transposed layer
                    module.nf = module.weight.shape[1]


def _cut_heads(attention: Any, division: Division) -> None:
    """Changes the numbers by which an attention module divides its results."""
    size, heads = division.plan.size, division.heads
    for name in _QUERY_HEADS:
        if hasattr(attention, name):
            setattr(attention, name, heads.queries // size)
    for name in _KV_HEADS:
        if hasattr(attention, name):
            setattr(attention, name, units_of(heads.keys, 0, size)[1])
    if hasattr(attention, "split_size"):
        attention.split_size //= size
    attention.all_heads = heads.queries
    attention.first_head = units_of(heads.queries, division.plan.rank, size)[0]
