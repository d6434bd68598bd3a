"""Experts that are spread over the ranks of several engines.

A layer's tokens go to the ranks that have their experts, of whichever engine, and the
results come back. All engines compute their steps together for it: see
`hookline_ranks.experts.lockstep`.
"""

import torch
from torch import nn

from hookline_ranks.experts.expert_group import ExpertGroup, ExpertTokens
from hookline_ranks.experts.expert_placement import OwnedExperts
from hookline_ranks.experts.whole_experts import OwnExperts


class SpreadExperts(OwnExperts):
    """The experts of a layer that one rank has, of all engines' experts."""

    def __init__(
        self, inner: nn.Module, owned: OwnedExperts, group: ExpertGroup
    ) -> None:
        """Wraps a module that takes tokens with the experts chosen for each."""
        super().__init__(inner, owned, group.count)
        self._group = group
        group.add_layer(self.summed)

    def forward(
        self, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Has the engine's tokens computed, and computes those of other engines.

        Args:
            hidden: [T, hidden].
            chosen: [T, k] indices among all experts.
            weights: [T, k] of their results.

        Returns:
            [T, hidden]; of several ranks of an engine a part of a sum.
        """
        tokens = ExpertTokens(hidden, chosen, weights)
        if self._group.is_on:
            return self._group.exchange(tokens, self.summed)
        return self.summed(self._as_if_own(tokens)).to(hidden.dtype)

    def _as_if_own(self, tokens: ExpertTokens) -> ExpertTokens:
        """Has the rank alone compute as much as it will, with others, on average."""
        own = self.owned.own
        return tokens._replace(chosen=own.start + tokens.chosen % len(own))
