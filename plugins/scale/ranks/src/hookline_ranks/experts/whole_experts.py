"""Experts that ranks have whole, instead of a part of each.

The router is whole on every rank, and chooses among all experts. A rank computes the
tokens for which its own experts were chosen; the sum over ranks behind the feed-forward
layer, which parts of experts need as well, adds what others have computed.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from hookline_models.checkpoints.model_part import WrappedModule
from hookline_models.forwards.layer_span import layers_of
from hookline_ranks.experts.expert_group import ExpertTokens
from hookline_ranks.experts.expert_placement import (
    OwnedExperts,
    set_num_experts,
)

CountTokens = Callable[[int], None]
"""Is told the number of pairs of a token and an expert that a layer computes."""
_EXPERTS = "experts"
"""Name that families give to a layer's experts, within its feed-forward layer."""


class OwnExperts(WrappedModule):
    """The experts of a layer that one rank has; the result is a part of a sum.

    Attributes:
        inner: The module that computes them, which counts them from 0.
        owned: Which ones they are.
    """

    def __init__(
        self, inner: nn.Module, owned: OwnedExperts, count: CountTokens
    ) -> None:
        """Wraps a module that takes tokens with the experts chosen for each."""
        super().__init__()
        self.inner, self.owned, self._count = inner, owned, count
        self.bytes_factor = owned.mean / len(owned.own)
        self.products_factor = self.bytes_factor * owned.engines

    def forward(
        self, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Computes the pairs of a token and one of the rank's own experts.

        Args:
            hidden: [T, hidden].
            chosen: [T, k] indices among all experts.
            weights: [T, k] of their results.

        Returns:
            [T, hidden]; zeros for tokens that only other ranks compute.
        """
        return self.summed(ExpertTokens(hidden, chosen, weights)).to(hidden.dtype)

    def summed(self, given: ExpertTokens) -> torch.Tensor:
        """Computes the same in float32, [T, hidden]."""
        own, chosen = self.owned.own, given.chosen
        is_own = (chosen >= own.start) & (chosen < own.stop)
        tokens = is_own.nonzero()[:, 0]
        self._count(len(tokens))
        summed = torch.zeros_like(given.hidden, dtype=torch.float32)
        if not len(tokens):
            return summed
        found = self.inner(
            given.hidden[tokens],
            (chosen[is_own] - own.start)[:, None],
            given.weights[is_own][:, None],
        )
        return summed.index_add_(0, tokens, found.float())


def with_own_experts(
    kind: type[PreTrainedModel], whole: PreTrainedConfig, own: range
) -> type[PreTrainedModel]:
    """Returns a class that makes models with one rank's experts, of their whole width.

    `transformers` finds what it knows of a class by its name and module, which stay.

    Args:
        kind: Makes models of a rank's sizes, with a part of every expert.
        whole: The configuration of all ranks' model.
        own: The rank's experts.
    """
    described = deepcopy(whole.get_text_config())
    set_num_experts(described, len(own))

    def initialize(
        self: Any, config: PreTrainedConfig, *given: Any, **named: Any
    ) -> None:
        kind.__init__(self, config, *given, **named)
        for parent, experts in _experts_of(self):
            made: Any = type(experts)
            made = made(described)
            made.config = experts.config  # which says how experts are computed
            setattr(parent, _EXPERTS, made)

    members = {"__init__": initialize, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), members)


def wrap_experts(
    model: PreTrainedModel, wrap: Callable[[nn.Module], OwnExperts]
) -> None:
    """Wraps the experts of each layer of a loaded model."""
    for parent, experts in _experts_of(model):
        setattr(parent, _EXPERTS, wrap(experts))


def _experts_of(model: PreTrainedModel) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Yields the experts of each layer that has any, and the module around them."""
    for layer in layers_of(model) or ():
        for parent in list(layer.children()):
            experts = getattr(parent, _EXPERTS, None)
            if isinstance(experts, nn.Module):
                yield parent, experts
