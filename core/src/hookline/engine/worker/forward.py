"""What a worker computes with: inputs on the model's device, and the forward pass."""

from typing import Protocol

import numpy as np
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch, ForwardOutput
from hookline.engine.worker.input_batch import Int64, StepInputs, one_by_one
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine.worker.verification import DraftTree
from hookline_kernels import TreeMask


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


class Feed(Protocol):
    """Brings inputs to the model's device; for one thread."""

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Returns the batch of one step, valid until the next call.

        Args:
            inputs: The step's.
            logits_indices: [W] indices into T of the tokens whose logits are computed.
        """
        ...


class HostFeed:
    """Feed for models in main memory: tensors share the arrays' memory."""

    def __init__(
        self, *, has_tiles: bool = False, tree: DraftTree | None = None
    ) -> None:
        """Splits drafts into decodes, unless tiles attend faster to several tokens.

        Drafts of a tree are always split: each attends to other tokens.
        """
        self._has_tiles = has_tiles and tree is None
        self._tree = tree

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        if inputs.num_drafts is not None and not self._has_tiles:
            inputs = one_by_one(inputs)
        trees = None
        if self._tree is not None and inputs.nodes is not None:
            trees = _tree_mask(self._tree, inputs, inputs.nodes)
        return ForwardBatch(
            token_ids=torch.from_numpy(inputs.token_ids),
            positions=torch.from_numpy(inputs.positions),
            logits_indices=torch.from_numpy(logits_indices),
            slot_mapping=torch.from_numpy(inputs.slots),
            block_tables=torch.from_numpy(inputs.block_tables.astype(np.int64)),
            query_lens=inputs.query_lens.tolist(),
            seq_lens=inputs.seq_lens.tolist(),
            num_decodes=count_decodes(inputs),
            seq_lens_tensor=torch.from_numpy(inputs.seq_lens),
            trees=trees,
        )


def count_decodes(inputs: StepInputs) -> int:
    """Returns the number of requests with one token, which come first."""
    return int((inputs.query_lens == 1).sum())


def _tree_mask(tree: DraftTree, inputs: StepInputs, nodes: Int64) -> TreeMask:
    """The mask of the decodes, into which trees have been split."""
    count = count_decodes(inputs)
    nodes = nodes[:count]
    return TreeMask(
        unseen=torch.from_numpy(tree.unseen[nodes]),
        num_unseen=torch.from_numpy(tree.num_unseen[nodes]),
        contexts=torch.from_numpy(inputs.seq_lens[:count] - nodes),
    )
