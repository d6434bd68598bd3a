"""Drafts from every position of whole sequences at once, without a cache.

For training, and to judge what was trained. A chain that begins at a position reads the
target's features up to there, and behind them its own. The chains of all positions are
computed together, a step of all of them at a time: in step s the number at position p
belongs to the chain that began at p - s, which has seen the target's features up to
p - s and its own of steps 1 … s (training-time test, Li et al. 2025).
"""

import torch

from hookline.spec_decode import TargetModel
from hookline_eagle.head import Head, Sides, angles_at, output_of


class ChainAttention:
    """Attends for one chain of steps; called once a step."""

    def __init__(self) -> None:
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """[n, length, heads, dim] each → the same.

        The first `step` positions have no chain; what is said there means nothing.
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
    """Of one batch of sequences."""

    def __init__(
        self,
        head: Head,
        target: TargetModel,
        tokens: torch.Tensor,
        told: torch.Tensor,
        table: Sides,
    ) -> None:
        """Takes the sequences, of whose tokens the first has no feature before it.

        Args:
            head: Drafts.
            target: What it shares weights with.
            tokens: [n, length] int64.
            told: [n, length, …] what the target says at each, for `Head.fused`.
            table: Of angles, for `length` positions.
        """
        self._head, self._table = head, target.embedding
        self._following = tokens[:, 1:]
        self._angles = angles_at(
            torch.arange(tokens.shape[1] - 1, device=tokens.device), table
        )
        self._features = head.fused(told[:, :-1])
        self._attend = ChainAttention()

    def step(self, drafted: torch.Tensor | None = None) -> torch.Tensor:
        """Features that the next step of all chains says, [n, length - 1, hidden size].

        That at position p is of token p + 1.

        Args:
            drafted: [n, length - 1] what the last step drafted, of the target's ids,
                at each position; None takes the tokens that do follow.
        """
        following = self._following
        if drafted is not None:
            following = _later(drafted, 1)
        embedded = self._head.embed(self._table, following).to(self._features.dtype)
        said: torch.Tensor = self._head(
            embedded, self._features, self._angles, self._attend
        )
        self._features = _later(said, 1)
        return said


@torch.no_grad()
def guesses(
    chains: Chains, head: Head, target: TargetModel, count: int
) -> torch.Tensor:
    """What chains of all positions draft, [count, n, length - 1], by where they began.

    The guess of place i at position p is of token p + 2 + i.
    """
    found: list[torch.Tensor] = []
    shared = output_of(target)
    drafted: torch.Tensor | None = None
    for place in range(count):
        said = chains.step(drafted)
        drafted = head.tokens(head.logits(shared, said).argmax(-1))
        found.append(torch.roll(drafted, -place, 1))
    return torch.stack(found)


def _later(values: torch.Tensor, steps: int) -> torch.Tensor:
    """[n, length, …] as seen so many positions further on."""
    return torch.roll(values, steps, 1) if steps else values
