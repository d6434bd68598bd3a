"""A step's inputs as tensors where the model computes."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from hookline.worker.drafting.draft_trees import TreeArrays
from hookline.worker.input_batch import Int64, StepInputs, one_by_one
from hookline_kernels import PagedMetadata, TreeMask


@dataclass(frozen=True, slots=True)
class StepTensors:
    """What a `Forward` takes, of T tokens.

    Attributes:
        token_ids: [T] int64.
        positions: [T] int64 in their sequences.
        wanted: [W] int64, indices of tokens whose logits are wanted.
        metadata: Of the batch.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    wanted: torch.Tensor
    metadata: PagedMetadata


class Feed(Protocol):
    """Brings inputs to where the model computes; one thread calls it."""

    def tensors(self, inputs: StepInputs, wanted: Int64) -> StepTensors:
        """Of one step; they hold until the next one's are asked for."""
        ...


class HostFeed:
    """For models in main memory: the tensors are the arrays."""

    def __init__(
        self, *, has_tiles: bool = False, tree: TreeArrays | None = None
    ) -> None:
        """Tiles are the quickest for drafts, too; else they are decoded one by one.

        So are those of a tree, each of which sees other tokens.
        """
        self._has_tiles = has_tiles and tree is None
        self._tree = tree

    def tensors(self, inputs: StepInputs, wanted: Int64) -> StepTensors:
        if not self._has_tiles:
            inputs = one_by_one(inputs)
        trees = None
        if self._tree is not None and inputs.nodes is not None:
            trees = _tree_mask(self._tree, inputs, inputs.nodes)
        metadata = metadata_of(
            inputs,
            slots=torch.from_numpy(inputs.slots),
            block_tables=torch.from_numpy(inputs.block_tables.astype(np.int64)),
            seq_lens=torch.from_numpy(inputs.seq_lens),
            trees=trees,
        )
        return StepTensors(
            torch.from_numpy(inputs.token_ids),
            torch.from_numpy(inputs.positions),
            torch.from_numpy(wanted),
            metadata,
        )


def metadata_of(
    inputs: StepInputs,
    *,
    slots: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    trees: TreeMask | None = None,
) -> PagedMetadata:
    """With these tensors, which are of the inputs."""
    return PagedMetadata(
        slots=slots,
        block_tables=block_tables,
        query_lens=inputs.query_lens.tolist(),
        seq_lens=inputs.seq_lens.tolist(),
        num_single=int((inputs.query_lens == 1).sum()),
        seq_lens_tensor=seq_lens,
        trees=trees,
    )


def _tree_mask(tree: TreeArrays, inputs: StepInputs, nodes: Int64) -> TreeMask:
    """Of the inputs' single tokens, which are one by one."""
    count = int((inputs.query_lens == 1).sum())
    nodes = nodes[:count]
    return TreeMask(
        unseen=torch.from_numpy(tree.unseen[nodes]),
        num_unseen=torch.from_numpy(tree.num_unseen[nodes]),
        contexts=torch.from_numpy(inputs.seq_lens[:count] - nodes),
    )
