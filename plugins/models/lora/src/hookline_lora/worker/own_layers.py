"""The linear layers of a model, and what a rank has of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from hookline.config.engine import EngineConfig
from hookline.engine.worker.extension import LoadedParts
from hookline_models.checkpoints.cut import ALL, Cut
from hookline_models.checkpoints.loading import FoundModel, LoadJob, find_model

if TYPE_CHECKING:  # only models that are divided among ranks need it
    from hookline_ranks.sharding.plan import ShardingPlan

EMBEDDING, HEAD = "model.embed_tokens", "lm_head"
_IN_LAYER = re.compile(
    r"model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
)

Shape = tuple[int, int]
"""Inputs and outputs; of an embedding tokens and width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayers:
    """The layers of a usual decoder that adapters may change.

    Attributes:
        whole: Shapes of those of the whole model, by full name.
        cuts: What this rank has of their weights [outputs, inputs]; by the names of
            those of which it has any part.
    """

    whole: Mapping[str, Shape]
    cuts: Mapping[str, Cut]

    def own_shape(self, name: str) -> Shape:
        """Returns the shape of this rank's part of a layer that is not an embedding."""
        outputs, inputs = self.cuts[name].shape(self.whole[name][::-1])
        return inputs, outputs

    def part(self, name: str, shape: Sequence[int]) -> Cut | None:
        """Returns what this rank has of a weight; None for nothing."""
        del shape
        return self.cuts.get(name)


def find_layers(parts: LoadedParts, config: EngineConfig) -> ModelLayers:
    """Finds the layers of a model of which this rank has all or a part.

    Ranks that divide a model's layers have no adapters of its embedding and output
    layer, since those are divided by tokens.

    Raises:
        ModelLoadError: The model's description has changed.
    """
    own = _shapes(parts.model)
    if config.parallel.world_size == 1:
        return ModelLayers(whole=own, cuts=dict.fromkeys(own, ALL))
    found = _described(parts, config)
    with torch.device("meta"):
        whole = _shapes(found.kind(found.whole))
    if config.parallel.tensor_parallel_size == 1:
        return ModelLayers(whole=whole, cuts=dict.fromkeys(own, ALL))
    plan = _plan(found, config)
    whole = {name: whole[name] for name in whole if _IN_LAYER.fullmatch(name)}
    cuts = {
        name: plan.cut(f"{name}.weight", whole[name][::-1])
        for name in own
        if name in whole
    }
    return ModelLayers(whole=whole, cuts=cuts)


def _shapes(model: nn.Module) -> dict[str, Shape]:
    """Shapes by names, without the names of modules that join what ranks compute."""
    found = {}
    for given, module in model.named_modules():
        name = ".".join(each for each in given.split(".") if each != "inner")
        if name == EMBEDDING and isinstance(module, nn.Embedding):
            found[name] = (module.num_embeddings, module.embedding_dim)
        elif isinstance(module, nn.Linear) and (
            name == HEAD or _IN_LAYER.fullmatch(name)
        ):
            found[name] = (module.in_features, module.out_features)
    return found


def _described(parts: LoadedParts, config: EngineConfig) -> FoundModel:
    job = LoadJob(config=config.model, folder=parts.description.folder)
    return find_model(job, parts.description.max_model_len(config.model.max_model_len))


def _plan(found: FoundModel, config: EngineConfig) -> "ShardingPlan":
    from hookline_ranks.sharding.division import divide  # noqa: PLC0415

    parallel = config.parallel
    return divide(
        found.config,
        rank=parallel.tensor_rank,
        size=parallel.tensor_parallel_size,
    ).plan
