"""Where a flattened batch's keys and values lie in the paged cache."""

from dataclasses import dataclass

import torch


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
    """

    slots: torch.Tensor
    block_tables: torch.Tensor
    query_lens: list[int]
    seq_lens: list[int]
    num_single: int
    seq_lens_tensor: torch.Tensor
