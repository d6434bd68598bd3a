"""Drafts from every position of whole sequences at once, without a cache.

Used in training and evaluation. A chain that starts at a position reads the target's
features up to that position and its own after it. The chains of all positions advance
together: in step s, index p belongs to the chain that started at p - s, which has read
the target's features up to p - s and its own of steps 1 … s (training-time test, Li et
al. 2025).
"""

import torch

from hookline_drafting import TargetModel
from hookline_eagle.head import Head, Sides, angles_at, output_of


class ChainAttention:
    """Attention of all chains of a batch; called once per step."""

    def __init__(self) -> None:
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Attends: [n, length, heads, dim] each → [n, length, heads, dim].

        The first `step` positions have no chain; their results are meaningless.
        """
        step, length = len(self._keys), query.shape[1]
        group = query.shape[2] // key.shape[2]
        key, value = (side.repeat_interleave(group, 2) for side in (key, value))
        self._keys.append(key)
        self._values.append(value)
        scale = query.shape[-1] ** -0.5
        scores = torch.einsum("nqhd,nkhd->nhqk", query, self._keys[0]) * scale
        places = torch.arange(length, device=query.device)
        hidden = places[None] > places[:, None] - step
        scores = scores.masked_fill(hidden, -torch.inf)
        own = [
            (query * _later(self._keys[at], step - at)).sum(-1).transpose(1, 2) * scale
            for at in range(1, step + 1)
        ]
        weights = torch.cat((scores, *(each[..., None] for each in own)), -1)
        weights = weights.softmax(-1, dtype=torch.float32).to(value.dtype)
        found = torch.einsum("nhqk,nkhd->nqhd", weights[..., :length], self._values[0])
        for at in range(1, step + 1):
            share = weights[..., length + at - 1].transpose(1, 2)[..., None]
            found = found + share * _later(self._values[at], step - at)
        return found


class Chains:
    """The chains of one batch of sequences."""

    def __init__(
        self,
        head: Head,
        target: TargetModel,
        tokens: torch.Tensor,
        states: torch.Tensor,
        table: Sides,
    ) -> None:
        """Creates chains at all positions of the sequences.

        Args:
            head: The head that drafts.
            target: The target whose weights it shares.
            tokens: [n, length] int64.
            states: [n, length, …] the target's states at each token, for `Head.fused`.
            table: Rotary table of `length` positions.
        """
        self._head, self._table = head, target.embedding
        self._following = tokens[:, 1:]
        self._angles = angles_at(
            torch.arange(tokens.shape[1] - 1, device=tokens.device), table
        )
        self._features = head.fused(states[:, :-1])
        self._attend = ChainAttention()

    def step(self, drafted: torch.Tensor | None = None) -> torch.Tensor:
        """Advances all chains; returns features [n, length - 1, hidden size].

        The feature at position p is of token p + 1.

        Args:
            drafted: [n, length - 1] token ids that the last step drafted; None uses the
                tokens that actually follow.
        """
        following = self._following
        if drafted is not None:
            following = _later(drafted, 1)
        embedded = self._head.embed(self._table, following).to(self._features.dtype)
        features: torch.Tensor = self._head(
            embedded, self._features, self._angles, self._attend
        )
        self._features = _later(features, 1)
        return features


@torch.no_grad()
def guesses(
    chains: Chains, head: Head, target: TargetModel, count: int
) -> torch.Tensor:
    """Returns greedy drafts [count, n, length - 1], by the start of their chains.

    Draft i at position p is of token p + 2 + i.
    """
    found: list[torch.Tensor] = []
    shared = output_of(target)
    drafted: torch.Tensor | None = None
    for place in range(count):
        features = chains.step(drafted)
        drafted = head.tokens(head.logits(shared, features).argmax(-1))
        found.append(torch.roll(drafted, -place, 1))
    return torch.stack(found)


def _later(values: torch.Tensor, steps: int) -> torch.Tensor:
    """Shifts [n, length, …] by `steps` positions."""
    return torch.roll(values, steps, 1) if steps else values
