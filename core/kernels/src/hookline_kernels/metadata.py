"""Metadata of a batch for attention and layers: slots, block tables, lengths."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

TREE_BITS = 64
"""Number of tokens that a `TreeMask` covers: a token and those before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeMask:
    """Tokens that each of S single-token requests does not attend to.

    Lets each node of a draft tree be a single-token request over the blocks of the
    whole tree: it attends to the context before the tree, its ancestors and itself. Its
    position is its place in the cache minus the number of tokens hidden from it.

    Attributes:
        unseen: [S] int64 bit masks; bit 0 is the token itself, bit 1 the token one
            place before it, and so on. 0 attends to all.
        num_unseen: [S] int64, number of bits set.
        contexts: [S] int64, number of leading tokens that every node attends to.
    """

    unseen: torch.Tensor
    num_unseen: torch.Tensor
    contexts: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMetadata:
    """One step's flattened batch of T tokens of B requests, decodes first.

    Attributes:
        slot_mapping: [T] int64; block × block size + offset of each token.
        block_tables: [B, blocks of the longest request] int64.
        query_lens: B ints, tokens of each request in this step.
        seq_lens: B ints, tokens of each request in the cache after this step.
        num_decodes: Number of requests with one token in this step; they come first.
        seq_lens_tensor: [B] int64, `seq_lens` on the device.
        trees: Mask of the decodes; None if each attends to all tokens before it.
    """

    slot_mapping: torch.Tensor
    block_tables: torch.Tensor
    query_lens: list[int]
    seq_lens: list[int]
    num_decodes: int
    seq_lens_tensor: torch.Tensor
    trees: TreeMask | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMetadata(AttentionMetadata):
    """What the layers of a step read, but for hidden states.

    Attributes:
        positions: [T] int64, of each token in its request.
        adapters: Which rows have which adapter, for layers that apply adapters; None if
            the model's weights alone compute the step.
    """

    positions: torch.Tensor
    adapters: object | None = None


CosSin = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines of rotary embedding, as the kernels of one device read them."""

Layer = Callable[[torch.Tensor, LayerMetadata, CosSin], torch.Tensor]
"""([T, hidden], batch, rotary) → [T, hidden]; may overwrite its input."""
