"""Finds the parts of a usual decoder in a model of `transformers`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

from hookline.models.quantized.linear import QuantizedLinear
from hookline.models.sharding.modules import VocabularyPart, plain

_MODEL = {"embed_tokens", "layers", "norm", "rotary_emb"}
_LAYER = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_PRODUCTS = ("q_proj", "k_proj", "v_proj", "o_proj")
_HEAD_NORMS = {"q_norm", "k_norm"}

Embed = Callable[[torch.Tensor], torch.Tensor]


class NotDecoder(Exception):  # noqa: N818 - not an error: such models run as modules
    """A model has another structure, or computes something else than it seems to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParts:
    """The modules of one layer.

    Attributes:
        attention_norm: Norm before attention.
        query: Query projection.
        key: Key projection.
        value: Value projection.
        output: Output projection of attention.
        query_norm: Norm of each query head before rotation; may be None.
        key_norm: Norm of each key head before rotation; may be None.
        feed_forward_norm: Norm before the feed-forward layer.
        feed_forward: Feed-forward layer of any kind.
    """

    attention_norm: nn.Module
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    query_norm: nn.Module | None
    key_norm: nn.Module | None
    feed_forward_norm: nn.Module
    feed_forward: nn.Module


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderParts:
    """The modules of a whole decoder.

    Attributes:
        embedding: [vocabulary, hidden], or a rank's rows of it.
        embed: Token ids [T] → [T, hidden].
        layers: The layers in order.
        norm: Norm after the last layer.
        output: Projection to logits.
        rotary: (values of any dtype, positions [1, n]) → cosines and sines
            [1, n, head dim] in that dtype.
    """

    embedding: torch.Tensor
    embed: Embed
    layers: tuple[LayerParts, ...]
    norm: nn.Module
    output: nn.Linear
    rotary: nn.Module


def find_parts(model: PreTrainedModel) -> DecoderParts:
    """Finds the parts by the names that families share.

    Raises:
        NotDecoder: A part is missing, or there is an unknown one.
    """
    inner = model.get_decoder()
    _expect("model", model, {"model", "lm_head"})
    _expect("decoder", inner, _MODEL)
    table = inner.embed_tokens
    embed: Embed = table
    if isinstance(table, VocabularyPart):
        table = table.inner
    else:
        embed = partial(functional.embedding, weight=table.weight)
    if type(table) is not nn.Embedding:
        raise NotDecoder("its embedding is not a plain table")
    return DecoderParts(
        embedding=table.weight,
        embed=embed,
        layers=tuple(map(_layer, inner.layers)),
        norm=inner.norm,
        output=_linear(model, "lm_head"),
        rotary=inner.rotary_emb,
    )


def _layer(layer: nn.Module) -> LayerParts:
    _expect("layer", layer, _LAYER)
    attention = layer.get_submodule("self_attn")
    children = dict(attention.named_children())
    has_norms = {*children} >= _HEAD_NORMS
    _expect(
        "attention", attention, {*_PRODUCTS} | (_HEAD_NORMS if has_norms else set())
    )
    query, key, value, output = (_linear(attention, name) for name in _PRODUCTS)
    return LayerParts(
        attention_norm=layer.get_submodule("input_layernorm"),
        query=query,
        key=key,
        value=value,
        output=output,
        query_norm=children.get("q_norm"),
        key_norm=children.get("k_norm"),
        feed_forward_norm=layer.get_submodule("post_attention_layernorm"),
        feed_forward=plain(layer.get_submodule("mlp")),
    )


def _expect(what: str, module: nn.Module, names: set[str]) -> None:
    found = {name for name, _ in module.named_children()}
    if found != names:
        others = ", ".join(sorted(found ^ names))
        raise NotDecoder(f"its {what} has another structure: {others}")


def _linear(parent: nn.Module, name: str) -> nn.Linear:
    child = plain(parent.get_submodule(name))
    if type(child) is not nn.Linear and not isinstance(child, QuantizedLinear):
        raise NotDecoder(f"its {name} is not a plain linear layer")
    return child
