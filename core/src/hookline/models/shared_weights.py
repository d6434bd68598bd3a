"""The weights of a model that its proposer may share."""

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline.spec_decode.target import TargetModel


def shared_weights(name: str, model: PreTrainedModel) -> TargetModel:
    """Returns the model's embedding and output layer, without a copy.

    Raises:
        ModelLoadError: Either has no weight of two dimensions.
    """
    tables: list[torch.Tensor] = []
    layers = (model.get_input_embeddings(), model.get_output_embeddings())
    for layer in layers:
        weight = getattr(layer, "weight", None)
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
