"""What a decode kernel is made for, and what each call of it is told."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import from_dtype, types

from hookline_kernels.cpu.vectors import LANES

CALL = np.dtype(
    [
        (name, np.int64)
        for name in (
            "next_part",  # counts up, taken by threads
            "next_thread",  # likewise
            "query",  # addresses from here on
            "keys",
            "values",
            "output",
            "block_tables",
            "seq_lens",
            "scratch",
            "states",
            "parts_done",  # by sequence; 0 before a call and after it
            "prefixes",  # by sequence, states to go on from; 0 where there are none
            "prefix_lens",  # by sequence, tokens that are in these: whole blocks
            "unseen",  # by sequence, as in `TreeMask`; 0 where there are no trees
            "num_unseen",  # likewise
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
"""What a call of the kernel is told. A part is a multiple of the block size."""

SIGNATURE: Any = types.void(types.CPointer(from_dtype(CALL)))
"""void(CALL *)."""

UNBOUNDED = 1 << 40
"""A window or a part that no sequence reaches the end of."""

_PIECE_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeShape:
    """What a kernel is compiled for.

    Attributes:
        group: Query heads that share a KV head.
        key_dim: Width of a key.
        value_dim: Width of a value.
        block_size: Tokens a block.
        element_size: Bytes a number in the cache and the query: float32 or bfloat16.
        has_trees: It may be told what a token does not see.
    """

    group: int
    key_dim: int
    value_dim: int
    block_size: int
    element_size: int
    has_trees: bool = False

    @property
    def piece_tokens(self) -> int:
        """Tokens whose scores are held at once: whole blocks."""
        return self.block_size * max(1, _PIECE_TOKENS // self.block_size)

    @property
    def row(self) -> int:
        """Numbers between one head's scores and the next head's."""
        return -(-self.piece_tokens // LANES) * LANES

    def scratch_floats(self, num_kv_heads: int) -> int:
        """Numbers that a thread needs: queries, scores and a state."""
        heads = self.group * num_kv_heads
        return heads * (self.key_dim + self.row) + self.state_floats(num_kv_heads)

    def state_floats(self, num_kv_heads: int) -> int:
        return self.group * num_kv_heads * (2 + self.value_dim)
