"""Attention of many new tokens over their pages, by matrix products.

Cached and new tokens are read alike, where they lie. As in decode, softmax is taken
piece by piece (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention); here a
piece serves a block of queries, tile by tile. Weights are rounded to bfloat16 for their
product with the values.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import float32, njit

from hookline_kernels.cpu.amx import DEPTH, ROWS, has_tiles
from hookline_kernels.cpu.decode_call import UNBOUNDED
from hookline_kernels.cpu.elements import array_at, float_bits, to_float
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import float_at, int_at, set_float, take
from hookline_kernels.cpu.prefill_tiles import (
    LOG2_E,
    lay_keys,
    lay_values,
    score_tiles,
    weigh_row,
    weigh_tiles,
)
from hookline_kernels.cpu.rows import fill_row, row_max, scale_row
from hookline_kernels.failure import KernelError
from hookline_kernels.metadata import PagedMetadata

_PIECE = 512
"""Tokens whose scores are held at once."""
_PAD = 16
"""Numbers after each row of scores, and after the states, which filling may reach."""
_SCORE_BYTES = 4 * (_PIECE + _PAD)
_TILE_BYTES = ROWS * (_SCORE_BYTES + 2 * _PIECE)
"""Of a tile's scores and weights."""
_MOST_QUERIES = 768
"""Rows of a block of queries, those of all heads that share keys together."""
_LOWEST = np.float32(-np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillShape:
    """What a kernel is compiled for; numbers are bfloat16.

    Attributes:
        group: Query heads that share a KV head.
        num_kv_heads: Of the cache.
        key_dim: Width of a key.
        value_dim: Width of a value.
        block_size: Tokens a block.
    """

    group: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    block_size: int

    @property
    def tokens(self) -> int:
        """Of a block of queries: whole tiles."""
        return max(ROWS, _MOST_QUERIES // self.group // ROWS * ROWS)

    @property
    def panel_bytes(self) -> int:
        return 2 * _PIECE * (self.key_dim + self.value_dim)

    @property
    def state_bytes(self) -> int:
        """Of one query of one head: largest score, sum of weights, sum of values."""
        return 4 * (2 + self.value_dim)

    @property
    def scratch_bytes(self) -> int:
        """What a thread needs."""
        states = self.tokens * self.group * self.state_bytes
        return -(-(self.panel_bytes + _TILE_BYTES + states + 4 * _PAD) // 64) * 64


class TiledPrefill:
    """Attends for the requests with several new tokens; one thread calls it."""

    def __init__(self, shape: PrefillShape, dtype: torch.dtype) -> None:
        """Compiles what is not compiled yet.

        Raises:
            KernelError: There is no matrix unit, or none for this shape.
        """
        if dtype != torch.bfloat16 or not has_tiles():
            raise KernelError(f"there is no matrix unit for {dtype}")
        if shape.key_dim % DEPTH or shape.value_dim % ROWS or shape.block_size % ROWS:
            raise KernelError(f"tiles do not fit {shape}")
        self._shape = shape
        self._kernel = _kernel(shape)
        self._numbers = numbers_of(*[0] * 14)
        self._items = np.zeros((0, 4), np.int64)
        self._pairs = 0
        self._scratch = torch.empty(0, dtype=torch.uint8)

    def begin(self, metadata: PagedMetadata) -> None:
        """Notes what all layers of a step share."""
        single = metadata.num_single
        self._items = _items(
            metadata.query_lens[single:],
            metadata.seq_lens[single:],
            first=single,
            most=self._shape.tokens,
        )
        self._pairs = int((self._items[:, 2] * (self._items[:, 3] + 1)).sum())
        needed = torch.get_num_threads() * self._shape.scratch_bytes
        if len(self._scratch) < needed + 64:
            self._scratch = torch.empty(needed + 64, dtype=torch.uint8)
        numbers, tables = self._numbers, metadata.block_tables
        numbers[2], numbers[3] = len(self._items), self._items.ctypes.data
        numbers[4], numbers[5] = tables.data_ptr(), 8 * tables.stride(0)
        numbers[6] = -(-self._scratch.data_ptr() // 64) * 64

    def __call__(
        self,
        query: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        output: torch.Tensor,
        scale: float,
        window: int | None,
    ) -> None:
        """Fills the rows of the output that belong to these requests.

        Args:
            query: [T, heads, key dim], of the whole batch.
            keys: Of `layout.new_keys`, the step's own written.
            values: The same of `layout.new_values`.
            output: [T, heads, value dim], contiguous.
            scale: Multiplies the scores.
            window: A token sees so many tokens, itself included; None sees all.
        """
        if query.stride(2) != 1:
            query = query.contiguous()
        numbers = self._numbers
        numbers[1] = 0
        numbers[7], numbers[8] = query.data_ptr(), 2 * query.stride(0)
        numbers[9] = 2 * query.stride(1)
        numbers[10], numbers[11] = keys.data_ptr(), values.data_ptr()
        numbers[12] = output.data_ptr()
        numbers[13] = UNBOUNDED if window is None else window
        numbers[14] = float_bits(scale * LOG2_E)
        self._kernel(self._pairs * query.shape[1], numbers)


def _items(
    query_lens: Sequence[int], seq_lens: Sequence[int], *, first: int, most: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Blocks of queries, [n, 4]: sequence, first row, tokens, first position.

    Those that see most come first, so that no thread is left with a long one.
    """
    items, row = [], first
    for index, (count, length) in enumerate(zip(query_lens, seq_lens, strict=True)):
        for start in range(0, count, most):
            tokens = min(most, count - start)
            items.append((first + index, row + start, tokens, length - count + start))
        row += count
    items.sort(key=lambda item: -item[2] * item[3])
    return np.array(items, np.int64).reshape(-1, 4)


@functools.cache
def _kernel(shape: PrefillShape) -> Kernel:
    group, kv_heads, block = shape.group, shape.num_kv_heads, shape.block_size
    state_bytes, scratch_bytes = shape.state_bytes, shape.scratch_bytes
    panel_bytes, value_dim = shape.panel_bytes, shape.value_dim
    lay_piece, attend_tile = _piece_layer(shape), _tile_attender(shape)
    clear_tile, write_tile = _tile_clearer(value_dim), _tile_writer(shape)

    def prefill(numbers: Any) -> None:
        given = array_at(numbers, 15, np.int64)
        panel = given[6] + take(numbers + 8, 1) * scratch_bytes
        states = panel + panel_bytes + _TILE_BYTES
        work = take(numbers, 1)
        while work < given[2] * kv_heads:
            item, head = given[3] + work // kv_heads * 32, work % kv_heads
            table = given[4] + int_at(item, 0) * given[5]
            row, count, position = int_at(item, 1), int_at(item, 2), int_at(item, 3)
            for member in range(group):
                for tile in range(0, count, ROWS):
                    state = states + (member * count + tile) * state_bytes
                    clear_tile(state, min(ROWS, count - tile))
            last = position + count
            at = max(0, position + 1 - given[13]) // block * block
            while at < last:
                stop = min(at + _PIECE, last)
                lay_piece(given[10], given[11], table, head, at, stop, panel)
                for member in range(group):
                    query = given[7] + given[9] * (head * group + member)
                    for tile in range(0, count, ROWS):
                        attend_tile(
                            given,
                            query + (row + tile) * given[8],
                            min(ROWS, count - tile),
                            panel,
                            states + (member * count + tile) * state_bytes,
                            position + tile,
                            at,
                            stop,
                        )
                at = stop
            for member in range(group):
                own = head * group + member
                for tile in range(0, count, ROWS):
                    state = states + (member * count + tile) * state_bytes
                    place = (row + tile) * kv_heads * group + own
                    target = given[12] + place * value_dim * 2
                    write_tile(state, min(ROWS, count - tile), target)
            work = take(numbers, 1)

    name = f"prefill-{group}-{kv_heads}-{shape.key_dim}-{value_dim}-{block}"
    return Kernel(prefill, name)


def _tile_clearer(value_dim: int) -> Any:
    def clear_tile(state: int, rows: int) -> None:
        """Nothing is seen yet.

        A tile's state is `rows` largest scores (in powers of 2), then sums of weights,
        then rows of sums of values.
        """
        fill_row(state + 4 * rows, rows * (1 + value_dim), float32(0.0))
        for index in range(rows):
            set_float(state, index, _LOWEST)

    return njit(clear_tile)


def _tile_attender(shape: PrefillShape) -> Any:
    key_dim, value_dim = shape.key_dim, shape.value_dim
    panel_bytes, value_panel = shape.panel_bytes, 2 * _PIECE * key_dim
    score_bytes, weight_bytes = _SCORE_BYTES, 2 * _PIECE
    soften = _softener(value_dim)

    def attend_tile(  # noqa: PLR0917 - numba passes by position
        given: Any,
        query: int,
        rows: int,
        panel: int,
        state: int,
        low: int,
        at: int,
        stop: int,
    ) -> None:
        """Some queries, the first of them at `low`, see the piece at … stop - 1."""
        window = given[13]
        if low + rows <= at or low + 1 - window >= stop:
            return
        scores = panel + panel_bytes
        weights = scores + ROWS * score_bytes
        columns = (min(stop, low + rows) - at + DEPTH - 1) // DEPTH * DEPTH
        score_tiles(query, given[8], rows, panel, columns, scores, score_bytes, key_dim)
        for index in range(rows):
            seen = low + index + 1
            soften(
                scores + index * score_bytes,
                weights + index * weight_bytes,
                state,
                rows,
                index,
                min(max(0, seen - window - at), columns),
                max(min(stop, seen) - at, 0),
                columns,
                to_float(given[14]),
            )
        sums, values = state + 8 * rows, panel + value_panel
        weigh_tiles(weights, rows, values, columns, sums, weight_bytes, value_dim)

    return njit(attend_tile)


def _tile_writer(shape: PrefillShape) -> Any:
    value_dim = shape.value_dim
    row_bytes = shape.num_kv_heads * shape.group * value_dim * 2

    def write_tile(state: int, rows: int, target: int) -> None:
        """The output of finished queries."""
        for index in range(rows):
            share = float32(1.0) / float_at(state, rows + index)
            sums = state + 8 * rows + index * value_dim * 4
            scale_row(sums, target + index * row_bytes, share, value_dim, 4, 2)

    return njit(write_tile)


def _piece_layer(shape: PrefillShape) -> Any:
    block, kv_heads = shape.block_size, shape.num_kv_heads
    key_dim, value_dim = shape.key_dim, shape.value_dim
    key_page, value_page = 2 * block * key_dim, 2 * block * value_dim
    value_panel = 2 * _PIECE * key_dim

    def lay_piece(  # noqa: PLR0917 - numba passes by position
        keys: int, values: int, table: int, head: int, start: int, stop: int, panel: int
    ) -> None:
        """Lays the tokens start … stop - 1 out, and 0 up to a multiple of 32."""
        for token in range(start, start + (stop - start + 31) // 32 * 32, ROWS):
            at = token - start
            target = panel + value_panel + 2 * at * value_dim
            if token >= stop:
                lay_values(values, target, 0, value_dim)  # nothing of it is kept
                continue
            page = int_at(table, token // block) * kv_heads + head
            within = token % block
            key = keys + page * key_page + 2 * within
            lay_keys(key, panel + 2 * at * key_dim, key_dim, block)
            value = values + page * value_page + 2 * within * value_dim
            lay_values(value, target, stop - token, value_dim)

    return njit(lay_piece)


def _softener(value_dim: int) -> Any:
    def soften(  # noqa: PLR0917 - numba passes by position
        scores: int,
        weights: int,
        state: int,
        rows: int,
        index: int,
        start: int,
        end: int,
        columns: int,
        factor: Any,
    ) -> None:
        """Scores of tokens start … end - 1 become weights, others 0; sums fade."""
        for token in range(start):
            set_float(scores, token, _LOWEST)
        if end < columns:
            fill_row(scores + 4 * end, columns - end, _LOWEST)
        old = float_at(state, index)
        top = max(old, row_max(scores, columns) * factor)
        if top == _LOWEST:  # it sees nothing here, and saw nothing before
            weigh_row(scores, weights, columns, float32(1.0), float32(0.0))
            return
        total = weigh_row(scores, weights, columns, factor, top)
        before = float_at(state, rows + index)
        if top > old:
            fade = float32(math.exp2(old - top))
            before *= fade
            set_float(state, index, top)
            sums = state + 8 * rows + 4 * index * value_dim
            scale_row(sums, sums, fade, value_dim, 4, 4)
        set_float(state, rows + index, before + total)

    return njit(soften)
