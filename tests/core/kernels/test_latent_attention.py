"""Attention over latents equals attention over the same keys and values."""

from dataclasses import replace

import pytest
import torch

from hookline_kernels import (
    AttentionLayer,
    AttentionMetadata,
    TreeMask,
    choose_attention,
    new_values,
)
from hookline_kernels import latent as latent_module
from hookline_kernels.attention import paged_attention

HEADS, RANK, ROTATED, BLOCK = 6, 24, 8, 4


def latent_layer(blocks: int) -> AttentionLayer:
    keys = new_values(blocks, BLOCK, 1, RANK + ROTATED, torch.float32).normal_()
    return AttentionLayer(keys, keys[..., :RANK], 0.2)


def metadata_of(lengths: list[tuple[int, int]]) -> AttentionMetadata:
    """Of (new tokens, all tokens); each request has its own blocks."""
    width = -(-max(length for _, length in lengths) // BLOCK)
    tables = torch.randperm(len(lengths) * width).view(len(lengths), width)
    slots = [
        int(tables[row, at // BLOCK]) * BLOCK + at % BLOCK
        for row, (new, length) in enumerate(lengths)
        for at in range(length - new, length)
    ]
    return AttentionMetadata(
        slot_mapping=torch.tensor(slots),
        block_tables=tables,
        query_lens=[new for new, _ in lengths],
        seq_lens=[length for _, length in lengths],
        num_decodes=sum(new == 1 for new, _ in lengths),
        seq_lens_tensor=torch.tensor([length for _, length in lengths]),
    )


@pytest.mark.parametrize("most", [latent_module._MOST_SCORES, 400])
def test_equals_attention_with_values_apart(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For decodes, chunks and prompts, also in several products."""
    monkeypatch.setattr(latent_module, "_MOST_SCORES", most)
    torch.manual_seed(2)
    batch = metadata_of([(1, 1), (1, 9), (4, 30), (17, 17)])
    layer = latent_layer(batch.block_tables.numel())
    tokens = sum(batch.query_lens)
    query = torch.randn(tokens, HEADS, RANK + ROTATED)
    key = torch.randn(tokens, 1, RANK + ROTATED)
    chosen = choose_attention(
        num_heads=HEADS,
        num_kv_heads=1,
        key_dim=RANK + ROTATED,
        value_dim=RANK,
        block_size=BLOCK,
        dtype=torch.float32,
        is_latent=True,
    )

    found = chosen.attend(query, key, key[..., :RANK], layer, batch)

    apart = replace(layer, values=layer.values.clone())
    assert torch.equal(
        layer.keys.flatten(0, 1)[batch.slot_mapping], key
    )  # written once
    assert torch.allclose(found, paged_attention(query, apart, batch), atol=1e-5)


def test_nodes_of_a_tree_see_their_path() -> None:
    """A hidden token takes no weight."""
    torch.manual_seed(4)
    batch = replace(
        metadata_of([(1, 12)]),
        trees=TreeMask(
            unseen=torch.tensor([0b110]),
            num_unseen=torch.tensor([2]),
            contexts=torch.tensor([9]),
        ),
    )
    layer = latent_layer(3)
    query = torch.randn(1, HEADS, RANK + ROTATED)

    found = latent_module.attend_latent(query, query, query, layer, batch)

    assert torch.allclose(found, paged_attention(query, layer, batch), atol=1e-5)
