"""Makes a model of the shapes of a checkpoint, which has no numbers and no memory."""

from collections.abc import Mapping

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from hookline.config.model import LoadFormat, ModelConfig
from hookline.model_description import ModelDescription
from hookline_models.checkpoints.loading import (
    FoundModel,
    LoadJob,
    as_load_errors,
    find_model,
    model_of,
)
from hookline_models.checkpoints.model_part import WHOLE
from hookline_models.loading.cost import num_experts_of
from hookline_models.quantization import StoredTensor, StoredWeights

_EXPERTS = "experts"
"""Name of the module with a layer's experts in all families of `transformers`."""


def sketch_model(
    config: ModelConfig,
    description: ModelDescription,
    max_model_len: int,
    tensors: Mapping[str, StoredTensor],
) -> PreTrainedModel:
    """Returns a model on the device `meta`, with the modules that a loaded one has.

    Args:
        config: The model.
        description: The contents of the model folder's descriptions.
        max_model_len: Maximum number of prompt plus output tokens.
        tensors: The tensors of its files, of which only the shapes are looked at.

    Raises:
        ModelLoadError: The model is not supported, or tensors are missing or of wrong
            shapes. Those of a model with experts are not compared.
    """
    with as_load_errors(config.model, description.architecture):
        job = LoadJob(config=config, folder=description.folder)
        found = find_model(job, max_model_len)
        text = found.config.get_text_config()
        if num_experts_of(text) or config.load_format is LoadFormat.DUMMY:
            model = _without_tensors(found)
        else:
            model = _with_shapes(job, found, tensors)
        if found.family is not None:
            found.family.replace_attention(model)
        return torch.nn.Module.to(model, torch.device("meta"))


def _without_tensors(found: FoundModel) -> PreTrainedModel:
    """Makes a model from its configuration; experts pass on what they get.

    Which of them compute would depend on numbers.
    """
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            found.config,
            dtype=found.dtype,
            attn_implementation=found.attention,
            trust_remote_code=False,
        )
    for module in list(model.modules()):
        if _EXPERTS in dict(module.named_children()):
            setattr(module, _EXPERTS, _PassingOn())
    return model


def _with_shapes(
    job: LoadJob, found: FoundModel, tensors: Mapping[str, StoredTensor]
) -> PreTrainedModel:
    shapes = {name: _Shape(each, found.dtype) for name, each in tensors.items()}
    method = found.quantization
    if method is None:
        return model_of(job, found, shapes)
    weights = StoredWeights(own=shapes, whole=shapes, cut=WHOLE.cut)
    read = method.read(weights, found.dtype)
    # What would be computed of numbers is left at its shape, too.
    plain = {name: _Shape(each, found.dtype) for name, each in read.items()}
    return model_of(job, found, plain)


class _Shape:
    """Stands for a stored tensor; implements `StoredTensor`."""

    def __init__(self, stored: StoredTensor, dtype: torch.dtype) -> None:
        self._stored = stored
        self._one = torch.zeros(1, dtype=dtype)

    def get_dtype(self) -> str:
        return self._stored.get_dtype()

    def get_shape(self) -> list[int]:
        return self._stored.get_shape()

    def __getitem__(self, _: object) -> torch.Tensor:
        """Returns one number, repeated."""
        return self._one.expand(self.get_shape())


class _PassingOn(nn.Module):
    """A module that returns its first argument."""

    def forward(self, hidden: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return hidden
