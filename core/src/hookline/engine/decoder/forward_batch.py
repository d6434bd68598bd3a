"""Everything that one forward pass reads, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch

from hookline_kernels import LayerMetadata


@dataclass(frozen=True, slots=True)
class IntermediateTensors:
    """Tensors that one pipeline stage passes to the next.

    Attributes:
        hidden_states: [T, hidden] in the model's dtype: the residual stream behind the
            stage's last layer. The next stage may overwrite it.
        features: [T, hidden] inputs of earlier layers that the last stage needs, by the
            layer's index in the whole model; nobody may overwrite them.
    """

    hidden_states: torch.Tensor
    features: Mapping[int, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBatch(LayerMetadata):
    """One step's flattened batch of T tokens of B requests, on the model's device.

    The runner makes one a step and passes it whole: to the model, its layers, their
    products and attention, to CUDA graphs and to recorded steps. Attention kernels read
    the fields that it inherits.

    Attributes:
        token_ids: [T] int64.
        logits_indices: [W] int64 indices into T of the tokens whose logits are
            computed, in the order of the logits.
        intermediate: Output of the previous pipeline stage, with which the layers begin
            instead of the tokens' embeddings; None on the first stage.
    """

    token_ids: torch.Tensor
    logits_indices: torch.Tensor
    intermediate: IntermediateTensors | None = None

    def after(self, intermediate: IntermediateTensors) -> Self:
        """Returns the same step, with which another stage goes on."""
        return replace(self, intermediate=intermediate)


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
