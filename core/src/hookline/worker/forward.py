"""What a worker computes with: the forward pass of a model, or of a stage of it."""

from typing import Protocol, runtime_checkable

import torch

from hookline.models.forward_batch import (
    ForwardBatch,
    ForwardOutput,
    IntermediateTensors,
)
from hookline.worker.paged_cache import PagedCache


class Forward(Protocol):
    """Computes logits, or in a pipeline what the next stage begins with.

    Attributes:
        name: `decoder`, `adapted modules` or `modules`.
        reason: Why a faster way is not taken; empty for the fastest.
    """

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str: ...

    def bind(self, cache: PagedCache) -> None:
        """Sets the cache that the next calls write and read."""
        ...

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Returns logits [W, vocabulary] at the batch's `logits_indices`.

        A stage that is not the last returns hidden states [T, hidden] behind its last
        layer, valid until the next call.
        """
        ...

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        """Returns logits and all tokens' hidden states, in memory of their own."""
        ...


@runtime_checkable
class PassingForward(Protocol):
    """The forward pass of a pipeline stage that is not the last."""

    def bind(self, cache: PagedCache) -> None:
        """As `Forward.bind`."""
        ...

    def read_features(self, layers: tuple[int, ...]) -> None:
        """Has `passed_on` return the inputs of those layers that the stage has.

        Args:
            layers: Indices in the whole model.

        Raises:
            ConfigError: The model does not show the inputs of its layers.
        """
        ...

    def passed_on(self, batch: ForwardBatch) -> IntermediateTensors:
        """Returns what the next stage begins with, valid until the next call."""
        ...
