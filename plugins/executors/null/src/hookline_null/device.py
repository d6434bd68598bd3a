"""A device that computes nothing: its tokens are random, and there at once."""

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch, ForwardOutput
from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine.worker.sampling.sampler import DrawnDrafts, Samples
from hookline.step import ModelShape
from hookline_models.machines.device_feed import DeviceFeed
from hookline_models.sampling.sampler import Sampler


class NullFeed(DeviceFeed):
    """A GPU's feed, for a device that does not know the last step's tokens either."""

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Implements `Feed`."""
        token_ids = np.maximum(inputs.token_ids, 0)
        inputs = dataclasses.replace(inputs, token_ids=token_ids)
        return super().batch(inputs, logits_indices)


class NullForward:
    """Implements `Forward`: all logits are 0, and share one row of memory."""

    name, reason = "null", ""

    def __init__(self, vocab_size: int) -> None:
        self._logits = torch.zeros(1, vocab_size)

    def bind(self, cache: PagedCache) -> None:
        """Has no use for a cache."""

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        return self._logits.expand(len(batch.logits_indices), -1)

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        """Returns hidden states of no width."""
        return ForwardOutput(self(batch), torch.zeros(len(batch.token_ids), 0))


class NullSampler(Sampler):
    """The real sampler, for steps whose tokens take more than their logits."""

    def sample(
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64 | None = None,
        drawn: DrawnDrafts | None = None,
        nodes: Int64 | None = None,
    ) -> Samples:
        """Implements `StepSampler`; each row gets memory of its own."""
        return super().sample(logits.contiguous(), rows, ends, drawn, nodes)


class RandomTokens:
    """Implements `DrawAhead`: no token ends a text, and any other is equally likely."""

    def __init__(self, shape: ModelShape, feed: DeviceFeed, seed: int) -> None:
        tokens = np.setdiff1d(np.arange(shape.vocab_size), shape.eos_token_ids)
        self._tokens = torch.from_numpy(tokens)
        self._feed = feed
        self._random = torch.Generator().manual_seed(seed)

    def __call__(self, logits: torch.Tensor, rows: Int64) -> Callable[[], Samples]:
        del logits
        size = (len(rows),)
        chosen = torch.randint(len(self._tokens), size, generator=self._random)
        read = self._feed.keep(self._tokens[chosen])
        return lambda: Samples(read())
