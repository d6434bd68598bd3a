"""One rank's part of a model: its tensors, its layers and its experts."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from hookline_models.checkpoints.cut import Cut
from hookline_models.checkpoints.model_part import ModelPart
from hookline_ranks.experts.expert_group import ExpertGroup
from hookline_ranks.experts.expert_placement import ExpertPlace, OwnedExperts
from hookline_ranks.experts.spread_experts import SpreadExperts
from hookline_ranks.experts.whole_experts import (
    CountTokens,
    OwnExperts,
    with_own_experts,
    wrap_experts,
)
from hookline_ranks.sharding.division import Division, divide
from hookline_ranks.sharding.modules import join_parts
from hookline_ranks.sharding.plan import ShardingPlan
from hookline_ranks.sharding.rank_reduction import RankReduction
from hookline_ranks.sharding.resizing import resized
from hookline_ranks.stages.stage import ONLY, Stage
from hookline_ranks.stages.staged_model import staged


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDivider:
    """Plans one rank's part of a model; implements `DivideModel`.

    Attributes:
        reduce: Joins the results of the ranks that share each layer, of which each
            reads its part; None if layers are whole.
        count_expert_tokens: The ranks that share the model have whole experts, and this
            is told what they compute; None if each rank has a part of every expert, or
            experts are spread further.
        expert_group: The ranks of several engines, over which experts are spread.
        stage: The pipeline stage whose layers to load.
    """

    reduce: RankReduction | None = None
    count_expert_tokens: CountTokens | None = None
    expert_group: ExpertGroup | None = None
    stage: Stage = ONLY

    def __call__(self, config: PreTrainedConfig) -> "RankPart":
        """Implements `DivideModel`."""
        whole, place, division = deepcopy(config), self.place, None
        if self.reduce is not None:
            rank, size = self.reduce.rank, self.reduce.size
            division = divide(config, rank=rank, size=size, experts=place)
        elif place is not None:
            division = divide(config, experts=place)
        return RankPart(self, whole, division)

    @property
    def place(self) -> ExpertPlace | None:
        """The rank's place among those that have whole experts; None without any."""
        if self.expert_group is not None:
            return self.expert_group.place
        if self.reduce is None or self.count_expert_tokens is None:
            return None
        return ExpertPlace(rank=self.reduce.rank, size=self.reduce.size)

    def wrapped(self, owned: OwnedExperts, experts: nn.Module) -> OwnExperts:
        """Returns the experts of a layer, as this rank computes them."""
        if self.expert_group is not None:
            return SpreadExperts(experts, owned, self.expert_group)
        assert self.count_expert_tokens is not None
        return OwnExperts(experts, owned, self.count_expert_tokens)


class RankPart(ModelPart):
    """What one of several ranks has of a model."""

    def __init__(
        self, ranks: RankDivider, whole: PreTrainedConfig, division: Division | None
    ) -> None:
        """Joins what is known of a part.

        Args:
            ranks: The rank among the others.
            whole: The configuration of all ranks' model.
            division: How ranks divide the layers; None if these are whole.
        """
        self._ranks, self._whole, self._division = ranks, whole, division
        self._plan = ShardingPlan() if division is None else division.plan
        self.has_all_layers = ranks.stage == ONLY
        self.is_whole = self._plan.is_whole and self.has_all_layers
        engines = 1 if ranks.place is None else ranks.place.engines
        self.num_parts = self._plan.size * ranks.stage.size * engines

    def has(self, name: str) -> bool:
        """Implements `ModelPart`."""
        return self._plan.has(name)

    def cut(self, name: str, shape: Sequence[int]) -> Cut:
        """Implements `ModelPart`."""
        return self._plan.cut(name, shape)

    def kind(self, kind: type[PreTrainedModel]) -> type[PreTrainedModel]:
        """Implements `ModelPart`."""
        division = self._division
        if division is not None and division.family.is_resized:
            kind = resized(kind, division)
        # Stages are divided by the layers' sizes, which must be the same on all ranks.
        kind = staged(kind, self._ranks.stage)
        if division is not None and division.experts is not None:
            kind = with_own_experts(kind, self._whole, division.experts.own)
        return kind

    def finish(self, model: PreTrainedModel) -> None:
        """Implements `ModelPart`."""
        if self._division is None:
            return
        if (experts := self._division.experts) is not None:
            wrap_experts(model, partial(self._ranks.wrapped, experts))
        if self._ranks.reduce is not None:
            join_parts(model, self._division, self._ranks.reduce)
