"""What a forward pass says beside its logits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch


class WithHidden(NamedTuple):
    """Of T tokens, W of whose logits were wanted.

    Attributes:
        logits: [W, vocabulary].
        final: [T, hidden] what the output layer reads.
        features: [T, layers × hidden] what chosen layers read; None without any.
    """

    logits: torch.Tensor
    final: torch.Tensor
    features: torch.Tensor | None = None


def side_by_side(
    read: Mapping[int, torch.Tensor], layers: Sequence[int]
) -> torch.Tensor | None:
    """[T, layers × hidden] of the [T, hidden] that each layer reads, in this order."""
    if not layers:
        return None
    return torch.cat([read[layer] for layer in layers], -1)
