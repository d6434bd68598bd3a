"""Where a flattened batch's keys and values lie in the paged cache."""

from dataclasses import dataclass

import torch

TREE_BITS = 64
"""So far back a token may be told what it does not see, itself included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeMask:
    """What each of S single tokens does not see of the tokens before it.

    So each node of a tree can be a sequence of one token, over the blocks of the whole
    tree: it sees what is before the tree, and of the tree its ancestors and itself.
    A token's position is its place in the cache less the number of those that it does
    not see.

    Attributes:
        unseen: [S] int64 of 64 bits; the lowest is for the token itself, the next one
            for the token in the place before it, and so on. 0 sees all.
        num_unseen: [S] int64, how many bits are set.
        contexts: [S] int64, tokens in the cache from the first on that are all seen.
    """

    unseen: torch.Tensor
    num_unseen: torch.Tensor
    contexts: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedMetadata:
    """One step's batch of T tokens of B requests, single-token requests first.

    Attributes:
        slots: [T] int64; block × block size + offset of each token.
        block_tables: [B, most blocks of any] int64.
        query_lens: B ints, tokens of each request in this step.
        seq_lens: B ints, tokens of each request in the cache after this step.
        num_single: Requests with one token; they come first.
        seq_lens_tensor: [B] int64, the same on the device.
        trees: Of the single tokens; None where each sees all before it.
    """

    slots: torch.Tensor
    block_tables: torch.Tensor
    query_lens: list[int]
    seq_lens: list[int]
    num_single: int
    seq_lens_tensor: torch.Tensor
    trees: TreeMask | None = None
