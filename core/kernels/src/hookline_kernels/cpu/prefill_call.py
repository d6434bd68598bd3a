"""Shapes, scratch memory and arguments of the tiled prefill kernel."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.cpu.amx import DEPTH, ROWS, has_tiles
from hookline_kernels.cpu.cache_formats import FORMATS
from hookline_kernels.cpu.decode_call import UNBOUNDED
from hookline_kernels.cpu.elements import float_bits
from hookline_kernels.cpu.launching import Numbers
from hookline_kernels.cpu.team import thread_team
from hookline_kernels.cpu.vectors import LOG2_E
from hookline_kernels.failure import KernelError

PIECE = 96
"""Tokens whose keys, values and scores a thread holds at once: its L1 cache full."""
TILE_BYTES = PIECE * ROWS * (4 + 2)
"""Bytes of a tile's scores and weights."""
ITEM_NUMBERS = 5
"""Numbers that describe a block of queries; see `tiled_kernel`."""
STEP_ARGUMENTS = slice(2, 7)
"""Arguments of the kernel that all layers of a step share."""
_MOST_ROWS = 768
"""Rows in a block of queries, counting all heads that share a KV head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillShape:
    """The shape that a kernel is compiled for; queries are bfloat16.

    Attributes:
        group: Number of query heads that share a KV head.
        num_kv_heads: Number of KV heads.
        key_dim: Width of a key.
        value_dim: Width of a value.
        block_size: Tokens in a block of the cache.
        cache_format: Format of the cache's numbers, from `cache_formats`.
    """

    group: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    block_size: int
    cache_format: int = 2

    @property
    def tokens(self) -> int:
        """Tokens in a block of queries."""
        return max(1, _MOST_ROWS // self.group)

    @property
    def panel_bytes(self) -> int:
        return 2 * PIECE * (self.key_dim + self.value_dim)

    @property
    def widened_bytes(self) -> int:
        """Bytes of 16 tokens' keys or values as bfloat16; 0 if the cache holds that."""
        if self.cache_format == FORMATS[torch.bfloat16]:
            return 0
        return 2 * ROWS * max(self.key_dim, self.value_dim)

    @property
    def query_bytes(self) -> int:
        """Bytes of a tile of queries."""
        return 2 * ROWS * self.key_dim

    @property
    def state_bytes(self) -> int:
        """Bytes of a tile's state: maximum scores, sums of weights, sums of values."""
        return 4 * ROWS * (2 + self.value_dim)

    @property
    def scratch_bytes(self) -> int:
        """Scratch bytes of a thread."""
        tiles = -(-self.tokens * self.group // ROWS)
        return (
            self.panel_bytes
            + self.widened_bytes
            + TILE_BYTES
            + tiles * (self.query_bytes + self.state_bytes)
        )


def check_tiles(shape: PrefillShape, dtype: torch.dtype) -> None:
    """Checks that this CPU's matrix unit can take a shape.

    Raises:
        KernelError: It cannot.
    """
    if dtype != torch.bfloat16 or not has_tiles():
        raise KernelError(f"no matrix unit for {dtype}")
    if shape.key_dim % DEPTH or shape.value_dim % DEPTH or shape.block_size % ROWS:
        raise KernelError(f"tiles do not fit {shape}")


def scratch_for(shape: PrefillShape, scratch: torch.Tensor) -> torch.Tensor:
    """Returns `scratch` if it is enough for all threads, else new memory."""
    needed = thread_team().max_threads * shape.scratch_bytes + 64
    if len(scratch) >= needed:
        return scratch
    return torch.empty(needed, dtype=torch.uint8)


def set_step_arguments(
    numbers: Numbers,
    items: np.ndarray[Any, np.dtype[np.int64]],
    tables: torch.Tensor,
    scratch: torch.Tensor,
) -> None:
    """Sets what all layers of a step share; the caller keeps all of it alive."""
    numbers[2], numbers[3] = len(items), items.ctypes.data
    numbers[4], numbers[5] = tables.data_ptr(), 8 * tables.stride(0)
    numbers[6] = -(-scratch.data_ptr() // 64) * 64


def set_layer_arguments(
    numbers: Numbers,
    query: torch.Tensor,
    layer: AttentionLayer,
    target: torch.Tensor,
) -> None:
    """Sets what differs between layers."""
    numbers[1] = 0
    numbers[7], numbers[8] = query.data_ptr(), 2 * query.stride(0)
    numbers[9] = 2 * query.stride(1)
    numbers[10], numbers[11] = layer.keys.data_ptr(), layer.values.data_ptr()
    numbers[12] = target.data_ptr()
    numbers[13] = UNBOUNDED if layer.window is None else layer.window
    numbers[14] = float_bits(layer.scale * LOG2_E)
