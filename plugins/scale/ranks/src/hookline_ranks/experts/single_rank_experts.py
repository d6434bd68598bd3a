"""Experts of one rank, which computes what it would compute among others."""

from dataclasses import dataclass

import torch

from hookline.stats.step_work import NO_RANKS, RankUse
from hookline_ranks.experts.expert_group import ComputeExperts, ExpertTokens
from hookline_ranks.experts.expert_placement import ExpertPlace


@dataclass(slots=True)
class SingleRankExperts:
    """A `StepExperts` whose other ranks do not exist: it computes its own part.

    Attributes:
        place: The place that the rank would have.
        is_on: False: no call reaches anybody.
    """

    place: ExpertPlace
    is_on: bool = False

    def add_layer(self, compute: ComputeExperts) -> None:
        """Does nothing: the layer is called by the model alone."""

    def exchange(self, own: ExpertTokens, compute: ComputeExperts) -> torch.Tensor:
        return compute(own).to(own.hidden.dtype)

    def count(self, pairs: int) -> None:
        """Does nothing: nobody asks."""

    def open(self, width: int, dtype: torch.dtype) -> None:
        """Does nothing: there is nobody to exchange with."""

    def join(self) -> None:
        """Does nothing: there is nobody to join."""

    def leave(self) -> None:
        """Does nothing."""

    def assist(self) -> None:
        """Does nothing: nobody else computes a step."""

    def end_step(self) -> RankUse:
        return NO_RANKS
