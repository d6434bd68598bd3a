"""A rank's part of a model that is whole in memory."""

from torch import nn

from hookline.models.sharding.cut import InMemory
from hookline.models.sharding.plan import ShardingPlan
from hookline.models.weight_files import TensorShard


def stored_parts(model: nn.Module, plan: ShardingPlan) -> dict[str, TensorShard]:
    """Returns the rank's part of every tensor of a model, by name."""
    return {
        name: TensorShard(name, InMemory(tensor), plan)
        for name, tensor in model.state_dict().items()
    }
