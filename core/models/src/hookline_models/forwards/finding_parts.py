"""Finds the parts of a usual decoder in a model of `transformers`."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

from hookline.engine.decoder.parts import DecoderParts, Embed, LayerParts, NotDecoder
from hookline_kernels.modules.quantized_layer import QuantizedLayer
from hookline_models.checkpoints.model_part import plain
from hookline_models.forwards.layer_span import span_of

_MODEL = {"embed_tokens", "layers", "norm", "rotary_emb"}
_LAYER = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_PRODUCTS = ("q_proj", "k_proj", "v_proj", "o_proj")
_HEAD_NORMS = {"q_norm", "k_norm"}


def find_parts(model: PreTrainedModel) -> DecoderParts:
    """Finds the parts by the names that families share.

    Raises:
        NotDecoder: A part is missing, or there is an unknown one.
    """
    inner = model.get_decoder()
    _expect("model", model, {"model", "lm_head"})
    _expect("decoder", inner, _MODEL)
    span = span_of(model)
    own = span.of(len(inner.layers))
    width = model.config.get_text_config().hidden_size
    return DecoderParts(
        embed=_embedding(inner.embed_tokens) if span.is_first else None,
        layers=tuple(_layer(inner.layers[index]) for index in own),
        norm=inner.norm if span.is_last else None,
        output=_linear(model, "lm_head") if span.is_last else None,
        rotary=inner.rotary_emb,
        first_layer=span.start,
        like=torch.empty(1, width, dtype=model.dtype, device=model.device),
    )


def _embedding(module: nn.Module) -> Embed:
    table = plain(module)
    if type(table) is not nn.Embedding:
        raise NotDecoder("its embedding is not a plain table")
    if table is module:
        return partial(functional.embedding, weight=table.weight)
    return module


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
    if type(child) is not nn.Linear and not isinstance(child, QuantizedLayer):
        raise NotDecoder(f"its {name} is not a plain linear layer")
    return child
