"""Medusa heads: small networks that predict later tokens from one hidden state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

Block = tuple[torch.Tensor, torch.Tensor | None]
"""Weight [hidden size, hidden size] and bias [hidden size] of a residual block."""


@dataclass(frozen=True, slots=True)
class Head:
    """A head that predicts the token of one position.

    Attributes:
        blocks: x + SiLU(Linear(x)), one after another.
        output: [vocabulary, hidden size]; None takes the target's output layer.
    """

    blocks: tuple[Block, ...]
    output: torch.Tensor | None

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """Maps target states to the output layer's input, [n, hidden size] both."""
        for weight, bias in self.blocks:
            hidden = hidden + functional.silu(functional.linear(hidden, weight, bias))
        return hidden

    def to(self, like: torch.Tensor) -> "Head":
        """Returns the head in the dtype and on the device of a tensor."""
        return Head(
            tuple(
                (_as(weight, like), None if bias is None else _as(bias, like))
                for weight, bias in self.blocks
            ),
            None if self.output is None else _as(self.output, like),
        )


@dataclass(frozen=True, slots=True)
class SharedOutput:
    """The target's output layer, for heads without one.

    Attributes:
        weight: [vocabulary, hidden size].
        bias: [vocabulary]; or None.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None


def likeliest(
    heads: Sequence[Head], shared: SharedOutput | None, hidden: torch.Tensor
) -> torch.Tensor:
    """Returns each head's most likely token.

    Args:
        heads: One or more, in order: head i predicts the token i + 2 after the state's.
        shared: For heads without an output layer; None if all have one.
        hidden: [n, hidden size] of the target, after its final norm.

    Returns:
        [heads, n] int64.
    """
    return torch.stack([each.argmax(-1) for each in _logits(heads, shared, hidden)])


def ranked(
    heads: Sequence[Head],
    shared: SharedOutput | None,
    hidden: torch.Tensor,
    count: int,
) -> torch.Tensor:
    """Returns each head's `count` most likely tokens, in order; see `likeliest`.

    Returns:
        [heads, n, count] int64.
    """
    return torch.stack(
        [each.topk(count, -1).indices for each in _logits(heads, shared, hidden)]
    )


def _logits(
    heads: Sequence[Head], shared: SharedOutput | None, hidden: torch.Tensor
) -> Iterator[torch.Tensor]:
    """Yields the logits of each head, [n, vocabulary]."""
    for head in heads:
        states = head.states(hidden)
        if head.output is not None:
            yield functional.linear(states, head.output)
        else:
            assert shared is not None
            yield functional.linear(states, shared.weight, shared.bias)


def _as(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return tensor.to(device=like.device, dtype=like.dtype)
