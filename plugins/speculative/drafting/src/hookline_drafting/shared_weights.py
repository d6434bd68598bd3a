"""The weights of a model that its proposer may share."""

import re

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.config.model import LoadFormat, ModelConfig
from hookline.engine.worker.extension import LoadedParts
from hookline.exceptions import ModelLoadError
from hookline.model_description import ModelDescription
from hookline_drafting.target import TargetModel
from hookline_kernels.modules.quantized_layer import QuantizedLayer
from hookline_models.checkpoints.model_part import WHOLE
from hookline_models.checkpoints.opening import open_weights


def target_of(config: ModelConfig, parts: LoadedParts) -> TargetModel:
    """Returns the weights of a loaded model that a proposer may share.

    Raises:
        ModelLoadError: There are none of them, or they are in no file.
    """
    if parts.has_whole_tables:
        return shared_weights(config.model, parts.model)
    return stored_tables(config, parts.description, parts.model)


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


_EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|embed_in|word_embeddings|wte)\.weight$"
)
_OUTPUT = re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.weight$")
_OUTPUT_BIAS = re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.bias$")


def stored_tables(
    config: ModelConfig, description: ModelDescription, model: PreTrainedModel
) -> TargetModel:
    """Reads the whole embedding and output layer of a model that ranks divide.

    Args:
        config: The model.
        description: Its description.
        model: This rank's part of it.

    Raises:
        ModelLoadError: The weights are random, or the files have no such tables.
    """
    if config.load_format is LoadFormat.DUMMY:
        raise ModelLoadError(
            config.model,
            "drafts share the whole embedding, of which each rank has a part, and "
            "random weights are in no file",
        )
    with open_weights(config, description.folder) as files:
        tables = {
            kind: shard[...].to(model.device, model.dtype)
            for name, shard in files.shards(WHOLE).items()
            for kind in (_EMBEDDING, _OUTPUT, _OUTPUT_BIAS)
            if kind.search(name)
        }
    embedding = tables.get(_EMBEDDING)
    if embedding is None:
        raise ModelLoadError(config.model, "its files have no table of embeddings")
    output = tables.get(_OUTPUT, embedding)
    return TargetModel(
        hidden_size=output.shape[1],
        vocab_size=output.shape[0],
        embedding=embedding,
        output=output,
        output_bias=tables.get(_OUTPUT_BIAS),
        num_layers=model.config.get_text_config().num_hidden_layers,
    )


def _weight_of(layer: nn.Module) -> object:
    if isinstance(layer, QuantizedLayer):
        return layer.dequantized()
    return getattr(layer, "weight", None)
