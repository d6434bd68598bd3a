"""The forward pass of a rank that has the logits of a part of the vocabulary."""

import torch

from hookline.engine.decoder.forward_batch import ForwardBatch, ForwardOutput
from hookline.engine.worker.forward import Forward
from hookline.engine.worker.paged_cache import PagedCache
from hookline_ranks.sharding.rank_reduction import RankReduction


class GatheredForward:
    """Gives rank 0 the logits of all ranks, and the others none; implements `Forward`.

    Attributes:
        name: Of the rank's own forward pass.
    """

    def __init__(
        self, forward: Forward, reduce: RankReduction, vocab_size: int
    ) -> None:
        """Wraps a forward pass that gives [W, tokens of one rank]."""
        self._forward, self._reduce = forward, reduce
        self._vocab_size = vocab_size
        self.name = forward.name

    @property
    def reason(self) -> str:
        """Of the rank's own forward pass."""
        return self._forward.reason

    def bind(self, cache: PagedCache) -> None:
        self._forward.bind(cache)

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Returns logits [W, vocabulary] at rank 0, [0, vocabulary] elsewhere."""
        return self._gather(self._forward(batch))

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        found = self._forward.with_hidden(batch)
        return found._replace(logits=self._gather(found.logits))

    def _gather(self, part: torch.Tensor) -> torch.Tensor:
        found = self._reduce.gather(part, self._vocab_size)
        return part.new_empty(0, self._vocab_size) if found is None else found
