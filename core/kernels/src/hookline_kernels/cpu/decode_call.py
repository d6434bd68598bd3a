"""Shape and arguments of the decode kernel."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import from_dtype, types

from hookline_kernels.cpu.vectors import LANES

CALL = np.dtype(
    [
        (name, np.int64)
        for name in (
            "next_part",  # counter from which threads take parts
            "next_thread",  # likewise
            "query",  # addresses from here on
            "keys",
            "values",
            "output",
            "block_tables",
            "seq_lens",
            "scratch",
            "states",
            "parts_done",  # by request; 0 before and after a call
            "prefixes",  # states to continue from, by request; 0 if none
            "prefix_lens",  # tokens in these, by request: whole blocks
            "unseen",  # by request, as in `TreeMask`; 0 without trees
            "num_unseen",  # likewise
            "sinks",  # by head, as in `AttentionLayer`; 0 without
            "slopes",  # likewise
            "query_token_bytes",  # strides from here on
            "query_head_bytes",
            "output_token_bytes",
            "table_bytes",
            "scratch_bytes",
            "num_seqs",
            "num_kv_heads",
            "window",
            "part_tokens",
        )
    ]
    + [("scale", np.float32), ("softcap", np.float32)]
)
"""A call's arguments. The tokens of a part are a multiple of the block size."""

SIGNATURE: Any = types.void(types.CPointer(from_dtype(CALL)))
"""void(CALL *)."""

UNBOUNDED = 1 << 40
"""A window or a part that is longer than any request."""

_PIECE_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeShape:
    """The shape that a kernel is compiled for.

    Attributes:
        group: Number of query heads that share a KV head.
        key_dim: Width of a key.
        value_dim: Width of a value.
        block_size: Tokens in a block of the cache.
        element_size: Bytes of a number in query and output: float32 or bfloat16.
        cache_format: Format of the cache's numbers, from `cache_formats`.
        has_trees: Calls may carry a `TreeMask`.
    """

    group: int
    key_dim: int
    value_dim: int
    block_size: int
    element_size: int
    cache_format: int
    has_trees: bool = False

    @property
    def piece_tokens(self) -> int:
        """Tokens whose scores are held at a time: whole blocks."""
        return self.block_size * max(1, _PIECE_TOKENS // self.block_size)

    @property
    def row(self) -> int:
        """Numbers from one head's scores to the next head's."""
        return -(-self.piece_tokens // LANES) * LANES

    def scratch_floats(self, num_kv_heads: int) -> int:
        """Scratch numbers of a thread: queries, scores and a state."""
        heads = self.group * num_kv_heads
        return heads * (self.key_dim + self.row) + self.state_floats(num_kv_heads)

    def state_floats(self, num_kv_heads: int) -> int:
        return self.group * num_kv_heads * (2 + self.value_dim)
