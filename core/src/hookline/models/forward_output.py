"""Logits together with the hidden states that some proposers read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from hookline.models.forward_batch import IntermediateTensors


class ForwardOutput(NamedTuple):
    """Output of a forward pass over T tokens, with logits of W of them.

    Attributes:
        logits: [W, vocabulary].
        final: [T, hidden] inputs of the output layer.
        features: [T, layers × hidden] inputs of the feature layers; None if there are
            none.
    """

    logits: torch.Tensor
    final: torch.Tensor
    features: torch.Tensor | None = None


def concat_features(
    read: Mapping[int, torch.Tensor], layers: Sequence[int]
) -> torch.Tensor | None:
    """Joins each layer's [T, hidden] input, in the order of `layers`.

    Returns:
        [T, layers × hidden], or None without layers.
    """
    if not layers:
        return None
    return torch.cat([read[layer] for layer in layers], -1)


def features_before(before: IntermediateTensors | None) -> dict[int, torch.Tensor]:
    """Returns the features of earlier pipeline stages, to add one's own to."""
    return {} if before is None else dict(before.features)
