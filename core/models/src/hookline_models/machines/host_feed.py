"""Steps in main memory, whose inputs stay where they are."""

import dataclasses

import numpy as np
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine.worker.runner_maker import BatchState, RunnerMaker
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline.engine.worker.verification import DraftTree
from hookline_kernels import TreeMask
from hookline_models.sampling.sampler import Sampler, make_sampler


class HostSteps:
    """Implements `DeviceSteps`."""

    reason_without_graphs = ""

    def feed(self, maker: RunnerMaker, cache: PagedCache) -> "HostFeed":
        """Returns the feed of a model's inputs for steps over this cache."""
        has_tiles = all(each.has_tiles for each in cache.attention.values()) and all(
            layer.softcap is None for layer in maker.model.attention
        )
        return HostFeed(has_tiles=has_tiles, tree=maker.extensions.draft_tree)

    def forward(self, maker: RunnerMaker, feed: Feed) -> Forward:
        """Returns the model's forward pass."""
        del feed
        return maker.model.forward

    def sampler(self, maker: RunnerMaker, state: BatchState) -> Sampler:
        """Implements `DeviceSteps`."""
        return make_sampler(maker, state)

    def draw_ahead(self, feed: Feed, sampler: StepSampler) -> None:
        """Returns None: nothing runs beside the host."""
        del feed, sampler


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


def one_by_one(inputs: StepInputs) -> StepInputs:
    """Splits requests with drafts into one request per token, over the same blocks.

    A step's keys and values are written before any are read, so that each token attends
    to those before it, as in separate decodes. For attention only: fields about
    sampling keep their meaning.
    """
    if inputs.num_drafts is None:
        return inputs
    counts = inputs.num_drafts + 1
    last = np.repeat(np.cumsum(counts), counts) - 1
    behind = np.arange(len(last)) - last
    is_several = inputs.num_drafts > 0
    return dataclasses.replace(
        inputs,
        rows=np.repeat(inputs.rows, counts),
        query_lens=np.repeat(np.where(is_several, 1, inputs.query_lens), counts),
        seq_lens=np.repeat(inputs.seq_lens, counts) + behind,
        block_tables=np.repeat(inputs.block_tables, counts, axis=0),
    )
