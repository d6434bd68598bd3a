"""The weights of a model that its proposer may share."""

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline.models.quantized.linear import QuantizedLinear
from hookline.spec_decode.target import TargetModel
from hookline_kernels.quantized_weight import dequantize


def shared_weights(name: str, model: PreTrainedModel) -> TargetModel:
    """Returns the model's embedding and output layer.

    Nothing is copied, but a quantized output layer is expanded.

    Raises:
        ModelLoadError: Either has no weight of two dimensions.
    """
    tables: list[torch.Tensor] = []
    layers = (model.get_input_embeddings(), model.get_output_embeddings())
    for layer in layers:
        weight = _weight_of(layer)
        if not isinstance(weight, torch.Tensor) or weight.ndim != 2:
            raise ModelLoadError(
                name, "its embedding or output layer has no weight of two dimensions"
            )
        tables.append(weight.detach())
    embedding, output = tables
    bias = getattr(layers[1], "bias", None)
    return TargetModel(
        hidden_size=output.shape[1],
        vocab_size=output.shape[0],
        embedding=embedding,
        output=output,
        output_bias=bias.detach() if isinstance(bias, nn.Parameter) else None,
        num_layers=model.config.get_text_config().num_hidden_layers,
    )


def _weight_of(layer: nn.Module) -> object:
    if isinstance(layer, QuantizedLinear) and layer.quantized is not None:
        return dequantize(layer.quantized).to(layer.dtype)
    return getattr(layer, "weight", None)
