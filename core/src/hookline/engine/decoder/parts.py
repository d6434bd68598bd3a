"""The modules that a usual decoder is made of."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Embed = Callable[[torch.Tensor], torch.Tensor]


class NotDecoder(Exception):  # noqa: N818 - not an error: such models run as modules
    """A model has another structure, or computes something else than it seems to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParts:
    """The modules of one layer.

    Attributes:
        attention_norm: Norm before attention.
        query: Query projection.
        key: Key projection.
        value: Value projection.
        output: Output projection of attention.
        query_norm: Norm of each query head before rotation; may be None.
        key_norm: Norm of each key head before rotation; may be None.
        feed_forward_norm: Norm before the feed-forward layer.
        feed_forward: Feed-forward layer of any kind.
    """

    attention_norm: nn.Module
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    query_norm: nn.Module | None
    key_norm: nn.Module | None
    feed_forward_norm: nn.Module
    feed_forward: nn.Module


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderParts:
    """The modules of a decoder, or of one pipeline stage of it.

    Attributes:
        embed: Token ids [T] → [T, hidden]; None in a stage that is not the first.
        layers: The layers in order.
        norm: Norm after the last layer; None in a stage that is not the last.
        output: Projection to logits; None in a stage that is not the last.
        rotary: (values of any dtype, positions [1, n]) → cosines and sines
            [1, n, head dim] in that dtype.
        first_layer: Index of the first layer in the whole model.
        like: [1, hidden] of the layers' dtype, on their device.
    """

    embed: Embed | None
    layers: tuple[LayerParts, ...]
    norm: nn.Module | None
    output: nn.Linear | None
    rotary: nn.Module
    first_layer: int
    like: torch.Tensor
