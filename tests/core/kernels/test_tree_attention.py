"""A tree's node attends to the context, its ancestors and itself."""

import random
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

from hookline_kernels import (
    AttentionLayer,
    AttentionMetadata,
    TreeMask,
    choose_attention,
    new_keys,
    new_values,
)
from hookline_testing.essential import essential

DIM, HEADS, KV_HEADS = 32, 4, 2
SCALE = 0.2
SLOPES = 0.5 ** torch.arange(1, HEADS + 1)
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
Tree = list[int]
"""Of each node its parent; 0 is the root, which is its own."""


class How(NamedTuple):
    """How a layer scores."""

    window: int | None = None
    softcap: float | None = None
    slopes: torch.Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """Trees behind contexts; the last token of a context is its tree's root."""

    contexts: list[int]
    trees: list[Tree]
    block: int


def random_tree(source: random.Random, nodes: int) -> Tree:
    return [0] + [source.randrange(max(0, at - 9), at) for at in range(1, nodes + 1)]


def path(tree: Tree, node: int) -> list[int]:
    """The node's ancestors below the root, and itself."""
    return [*path(tree, tree[node]), node] if node else []


def metadata_of(batch: Batch, tables: torch.Tensor) -> AttentionMetadata:
    """Each node as a one-token request, over the blocks of its whole tree."""
    words, counts, contexts, lengths, rows = [], [], [], [], []
    for row, (context, tree) in enumerate(
        zip(batch.contexts, batch.trees, strict=True)
    ):
        for node in range(len(tree)):
            missing = set(range(1, node)) - set(path(tree, node))
            word = sum(1 << (node - each) for each in missing)
            words.append(word - (1 << 64) if word >> 63 else word)
            counts.append(len(missing))
            contexts.append(context)
            lengths.append(context + node)
            rows.append(row)
    return AttentionMetadata(
        slot_mapping=torch.zeros(len(rows), dtype=torch.int64),
        block_tables=tables[rows],
        query_lens=[1] * len(rows),
        seq_lens=lengths,
        num_decodes=len(rows),
        seq_lens_tensor=torch.tensor(lengths),
        trees=TreeMask(
            unseen=torch.tensor(words),
            num_unseen=torch.tensor(counts),
            contexts=torch.tensor(contexts),
        ),
    )


def by_formula(
    batch: Batch,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    how: How,
) -> torch.Tensor:
    """Attention in float64, node after node."""
    found: list[torch.Tensor] = []
    for row, (context, tree) in enumerate(
        zip(batch.contexts, batch.trees, strict=True)
    ):
        for node in range(len(tree)):
            seen = [*range(context), *(context - 1 + each for each in path(tree, node))]
            if how.window is not None:
                seen = seen[-how.window :]
            for_each = HEADS // KV_HEADS
            key = keys[row, seen].repeat_interleave(for_each, 1)
            value = values[row, seen].repeat_interleave(for_each, 1)
            scores = torch.einsum("hd,thd->ht", query[len(found)], key) * SCALE
            if how.softcap is not None:
                scores = how.softcap * torch.tanh(scores / how.softcap)
            if how.slopes is not None:  # a path's positions follow one another
                scores += how.slopes[:, None] * torch.arange(1 - len(seen), 1)
            found.append(torch.einsum("ht,thd->hd", scores.softmax(-1), value))
    return torch.stack(found)


BATCHES = {
    "small": Batch([1, 13], [[0, 0, 0, 1], [0, 0, 1, 0, 2, 2]], 16),
    "chain": Batch([20], [[0, 0, 1, 2, 3]], 16),
    "largest": Batch(
        [5, 300, 33],
        [random_tree(random.Random(seed), 64) for seed in range(3)],  # noqa: S311
        16,
    ),
    "mixed with decodes": Batch([70, 1, 900], [[0], [0, 0], [0] * 9], 16),
    "long": Batch([3000], [random_tree(random.Random(9), 40)], 16),  # noqa: S311
}


@pytest.mark.parametrize(
    "how",
    [How(), How(66), How(None, 1.5), How(130, 1.5), How(slopes=SLOPES)],
    ids=["plain", "windowed", "capped", "windowed and capped", "sloped"],
)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("may_compile", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("name", essential(BATCHES, "small", "mixed with decodes"))
def test_nodes_see_their_path(
    name: str,
    may_compile: bool,
    dtype: torch.dtype,
    how: How,
) -> None:
    """Random trees, also the largest, cut into parts, and with shared prefixes."""
    batch = BATCHES[name]
    chosen = choose_attention(
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        key_dim=DIM,
        value_dim=DIM,
        block_size=batch.block,
        dtype=dtype,
        may_compile=may_compile,
        has_trees=True,
    )
    torch.manual_seed(3)
    longest = max(
        context + len(tree) - 1
        for context, tree in zip(batch.contexts, batch.trees, strict=True)
    )
    count = -(-longest // batch.block)
    blocks = len(batch.contexts) * count
    tables = torch.randperm(blocks).view(-1, count)
    keys = new_keys(blocks, batch.block, KV_HEADS, DIM, dtype).normal_()
    values = new_values(blocks, batch.block, KV_HEADS, DIM, dtype).normal_()
    metadata = metadata_of(batch, tables)
    query = torch.randn(metadata.num_decodes, HEADS, DIM, dtype=dtype)
    unused = torch.zeros(metadata.num_decodes, KV_HEADS, DIM, dtype=dtype)

    found = chosen.attend_written(
        query,
        unused,
        unused,
        AttentionLayer(keys, values, SCALE, how.window, how.softcap, slopes=how.slopes),
        metadata,
    )

    wanted = by_formula(
        batch,
        query.double(),
        keys[tables].flatten(1, 2).double(),
        values[tables].flatten(1, 2).double(),
        how,
    )
    error = (found.double() - wanted).abs().max()
    assert error < TOLERANCES[dtype] * (1 + wanted.abs().max())
