"""Shapes, scratch memory and arguments of the tiled prefill kernel."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.cpu.amx import DEPTH, ROWS, has_tiles
from hookline_kernels.cpu.cache_formats import bytes_of
from hookline_kernels.cpu.decode_call import UNBOUNDED
from hookline_kernels.cpu.elements import float_bits
from hookline_kernels.cpu.isa import Isa, current_isa, has_fast_bf16_dots
from hookline_kernels.cpu.launching import Numbers
from hookline_kernels.cpu.team import thread_team
from hookline_kernels.cpu.vectors import LOG2_E
from hookline_kernels.failure import KernelError

PIECE = 96
"""Tokens whose keys, values and scores a thread holds at once: its L1 cache full."""
GRAIN = 24
"""Of how many tokens each a piece consists for products of vectors."""
SCORE_BYTES = PIECE * ROWS * (4 + 2)
"""Bytes of a tile's scores and weights."""
ITEM_NUMBERS = 5
"""Numbers that describe a block of queries; see `tiled_kernel`."""
STEP_ARGUMENTS = slice(2, 7)
"""Arguments of the kernel that all layers of a step share."""
_MOST_ROWS = 768
"""Rows in a block of queries, counting all heads that share a KV head."""


class Form(Enum):
    """What products are made of: queries, keys, values, and their weights."""

    TILES = "tiles"
    """bfloat16, by the matrix unit."""
    PAIRS = "pairs"
    """Pairs of bfloat16, by vectors' dot products."""
    FLOATS = "floats"
    """float32, by vectors' fused products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillShape:
    """The shape that a kernel is compiled for.

    Attributes:
        form: What its products are made of.
        size: Bytes of a number of queries and outputs: 4 for float32, 2 for bfloat16.
        group: Number of query heads that share a KV head.
        num_kv_heads: Number of KV heads.
        key_dim: Width of a key.
        value_dim: Width of a value.
        block_size: Tokens in a block of the cache.
        cache_format: Format of the cache's numbers, from `cache_formats`.
    """

    form: Form
    size: int
    group: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    block_size: int
    cache_format: int

    @property
    def panel_size(self) -> int:
        """Bytes of a number in panels of queries, keys and values."""
        return 4 if self.form is Form.FLOATS else 2

    @property
    def tokens(self) -> int:
        """Tokens in a block of queries."""
        return max(1, _MOST_ROWS // self.group)

    @property
    def panel_bytes(self) -> int:
        return self.panel_size * PIECE * (self.key_dim + self.value_dim)

    @property
    def widened_bytes(self) -> int:
        """Bytes of 16 tokens' widened keys or values; 0 if the cache has no scales."""
        if bytes_of(self.cache_format) > 1:
            return 0
        return self.panel_size * ROWS * max(self.key_dim, self.value_dim)

    @property
    def query_bytes(self) -> int:
        """Bytes of a tile of queries."""
        return self.panel_size * ROWS * self.key_dim

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
            + SCORE_BYTES
            + tiles * (self.query_bytes + self.state_bytes)
        )


def fastest_form(dtype: torch.dtype) -> Form:
    """Returns the fastest form of products for a model of this dtype on this CPU."""
    if dtype != torch.bfloat16:
        return Form.FLOATS
    if has_tiles():
        return Form.TILES
    return Form.PAIRS if has_fast_bf16_dots() else Form.FLOATS


def possible_forms() -> list[Form]:
    """Returns the forms that this CPU can compute."""
    isa = current_isa()
    has_dots = isa is Isa.NEON_BF16 or isa.includes(Isa.AVX512_BF16)
    can = {Form.TILES: has_tiles(), Form.PAIRS: has_dots, Form.FLOATS: True}
    return [form for form in Form if can[form]]


def check_shape(shape: PrefillShape) -> None:
    """Checks that there is a kernel for a shape.

    Raises:
        KernelError: There is none.
    """
    if shape.form not in possible_forms():
        raise KernelError(f"the CPU computes no {shape.form.value}")
    step = ROWS if shape.form is Form.FLOATS else DEPTH
    if shape.key_dim % step or shape.value_dim % step or shape.block_size % ROWS:
        raise KernelError(f"{shape.form.value} do not fit {shape}")


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
    size = query.itemsize
    numbers[1] = 0
    numbers[7], numbers[8] = query.data_ptr(), size * query.stride(0)
    numbers[9] = size * query.stride(1)
    numbers[10], numbers[11] = layer.keys.data_ptr(), layer.values.data_ptr()
    numbers[12] = target.data_ptr()
    numbers[13] = UNBOUNDED if layer.window is None else layer.window
    numbers[14] = float_bits(layer.scale * LOG2_E)
    numbers[16], numbers[17] = (
        0 if each is None else each.data_ptr() for each in (layer.sinks, layer.slopes)
    )
