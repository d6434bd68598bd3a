"""What a worker computes with: inputs on the model's device, and the forward pass."""

from typing import Protocol

import torch

from hookline.engine.decoder.forward_batch import ForwardBatch, ForwardOutput
from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline.engine.worker.paged_cache import PagedCache


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

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Returns logits [W, vocabulary] at the batch's `logits_indices`.

        A stage that is not the last returns hidden states [T, hidden] behind its last
        layer, valid until the next call.
        """

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        """Returns logits and all tokens' hidden states, in memory of their own."""


class Feed(Protocol):
    """Brings inputs to the model's device; for one thread."""

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Returns the batch of one step, valid until the next call.

        Args:
            inputs: The step's.
            logits_indices: [W] indices into T of the tokens whose logits are computed.
        """
