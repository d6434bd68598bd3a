"""The ranks of all engines that share a model's experts, as its layers call them."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch

from hookline_ranks.experts.expert_placement import ExpertPlace


class ExpertTokens(NamedTuple):
    """Tokens with the experts that were chosen for them.

    Attributes:
        hidden: [T, hidden].
        chosen: [T, k] indices among all experts.
        weights: [T, k] of their results.
    """

    hidden: torch.Tensor
    chosen: torch.Tensor
    weights: torch.Tensor


ComputeExperts = Callable[[ExpertTokens], torch.Tensor]
"""Computes the pairs of a token and one of a rank's own experts: the sums of each
token's results, [T, hidden] in float32."""


class ExpertGroup(Protocol):
    """The ranks over which a layer's experts are spread, seen from one of them.

    All ranks of all engines make the same calls in the same order, each from one
    thread. A call raises `hookline.exceptions.RankError` if another rank does not come.

    Attributes:
        place: This rank's place.
        is_on: Calls reach the others. Until then a rank is loaded and tried alone.
    """

    place: ExpertPlace
    is_on: bool

    def add_layer(self, compute: ComputeExperts) -> None:
        """Takes note of a layer with experts, in the order of layers."""
        ...

    def exchange(self, own: ExpertTokens, compute: ComputeExperts) -> torch.Tensor:
        """Has all ranks compute the tokens of all engines in one layer.

        Args:
            own: The tokens of this rank's engine, the same on all of its ranks.
            compute: Computes tokens of any engine in this rank's experts.

        Returns:
            [T, hidden], the sum over engines of what the rank with this one's index has
            computed. The sum over all ranks of an engine is the layer's result.
        """
        ...

    def count(self, pairs: int) -> None:
        """Counts pairs of a token and an expert that this rank has computed."""
        ...
