"""Computes what a loaded model's steps cost, from its weights and attention layers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.step import ModelCost
from hookline_kernels.modules.quantized_layer import QuantizedLayer
from hookline_models.checkpoints.model_part import MissingModule, WrappedModule

EXPERT_NUMBERS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Names that families give to the number of experts; some have two of them."""
_ACTIVE_EXPERTS = ("num_experts_per_tok", "experts_per_token", "top_k_experts")


def cost_of(
    model: PreTrainedModel,
    layers: Sequence[LayerCache],
    cache_dtype: torch.dtype | None = None,
) -> ModelCost:
    """Counts multiply-adds and bytes; the KV cache has the model's dtype by default.

    The weights of all layers and of the output layer are read once per step. The
    embedding table counts only if it is tied to the output layer; otherwise single rows
    are read. All experts count as read, since the tokens of a step together select
    nearly all of them; for steps of few tokens that overestimates.

    Returns:
        All zeros if the model's output layer is not a `Linear`. Of a pipeline stage,
        the cost of its own layers. A rank with whole experts counts the bytes of those
        that ranks have on average, and the products of its tokens in the experts of all
        engines.
    """
    output = model.get_output_embeddings()
    if not isinstance(output, (torch.nn.Linear, MissingModule)):
        return ModelCost()
    head = [weight for _, weight in _weights_of(output)]
    inner = dict(_inner_weights(model, output))
    read = [*inner.values(), *head]
    return ModelCost(
        flops_per_token=2.0 * _active_parameters(inner, model.config.get_text_config()),
        flops_per_pair=2.0 * sum(layer.products_per_pair for layer in layers),
        flops_per_sample=2.0 * sum(weight.products for weight in head),
        weight_bytes=sum(weight.nbytes for weight in read),
        kv_bytes_per_token=sum(
            layer.bytes_per_block(1, cache_dtype or model.dtype) for layer in layers
        ),
    )


class _Weight(NamedTuple):
    """A parameter, or all of a quantized layer.

    Attributes:
        nbytes: Bytes in memory.
        products: Multiply-adds of a token; none for norms and biases.
    """

    nbytes: int
    products: int

    def on_average(self, wrapper: WrappedModule | None) -> "_Weight":
        """Returns what ranks have of it on average, if each has a part."""
        if wrapper is None:
            return self
        return _Weight(
            round(self.nbytes * wrapper.bytes_factor),
            round(self.products * wrapper.products_factor),
        )


def _inner_weights(
    model: PreTrainedModel, output: torch.nn.Module
) -> Iterator[tuple[str, _Weight]]:
    """Yields the weights between the embeddings and the output layer."""
    wrappers: dict[torch.nn.Module, WrappedModule] = {}
    for prefix, module in model.get_decoder().named_modules():
        if module is output or isinstance(module, (torch.nn.Embedding, MissingModule)):
            continue
        if isinstance(module, WrappedModule):
            wrappers[module.inner] = module
        for name, weight in _weights_of(module):
            yield f"{prefix}.{name}", weight.on_average(wrappers.get(module))


def _weights_of(module: torch.nn.Module) -> Iterator[tuple[str, _Weight]]:
    """Yields a module's own weights; biases of experts have two dimensions, too."""
    if isinstance(module, QuantizedLayer):
        nbytes = sum(part.nbytes for part in module.parameters())
        yield "weight", _Weight(nbytes, module.in_features * module.out_features)
        return
    for name, weight in module.named_parameters(recurse=False):
        is_matrix = weight.ndim > 1 and not name.endswith("bias")
        yield name, _Weight(weight.nbytes, weight.numel() if is_matrix else 0)


def _active_parameters(inner: dict[str, _Weight], config: PreTrainedConfig) -> int:
    """Counts the parameters of the matrix products of one token."""
    matrices = {name: weight.products for name, weight in inner.items()}
    experts = sum(count for name, count in matrices.items() if ".experts." in name)
    every, active = num_experts_of(config), _count(config, _ACTIVE_EXPERTS)
    if not every or active is None:
        return sum(matrices.values())
    return sum(matrices.values()) - experts + experts * active // every


def num_experts_of(config: PreTrainedConfig) -> int:
    """Returns the number of experts among which a layer chooses; 0 without any."""
    return _count(config, EXPERT_NUMBERS) or 0


def _count(config: PreTrainedConfig, names: Sequence[str]) -> int | None:
    """Returns the first of these attributes that the configuration has."""
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if isinstance(value, int)), None)


def sum_of_costs(parts: Sequence[ModelCost]) -> ModelCost:
    """Returns the cost of a model whose parts, or ranks, have these costs."""
    costs = [msgspec.structs.asdict(each) for each in parts]
    names = ModelCost.__struct_fields__
    return ModelCost(**{name: sum(each[name] for each in costs) for name in names})
