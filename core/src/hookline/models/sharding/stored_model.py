"""A rank's part of a model that is whole in memory."""

from types import EllipsisType

import torch
from torch import nn

from hookline.models.sharding.cut import Index
from hookline.models.sharding.plan import ShardingPlan
from hookline.models.weight_files import TensorShard

_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}


class _InMemory:
    """A tensor in memory, as one in a file is read."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def get_dtype(self) -> str:
        return _NAMES.get(self._tensor.dtype, "F32")

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def __getitem__(self, index: Index | EllipsisType) -> torch.Tensor:
        return self._tensor[index].clone()


def stored_parts(model: nn.Module, plan: ShardingPlan) -> dict[str, TensorShard]:
    """Returns the rank's part of every tensor of a model, by name."""
    return {
        name: TensorShard(_InMemory(tensor), plan.cut(name, tensor.shape))
        for name, tensor in model.state_dict().items()
    }
