"""Attention of many new tokens over their pages, by matrix products.

Cached and new tokens are read alike, where they lie. As in decode, softmax is taken
piece by piece (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention); here a
piece stays in the first cache while a block of queries passes it, tile by tile. Weights
are rounded to bfloat16 for their product with the values.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit

from hookline_kernels.cpu.amx import DEPTH, ROWS, has_tiles
from hookline_kernels.cpu.decode_call import UNBOUNDED
from hookline_kernels.cpu.elements import array_at, float_bits, to_float
from hookline_kernels.cpu.launching import Kernel, Numbers, numbers_of
from hookline_kernels.cpu.memory import int_at, take
from hookline_kernels.cpu.panels import close_tiles, open_tiles
from hookline_kernels.cpu.prefill_panels import (
    lay_keys,
    lay_queries,
    lay_values,
    write_rows,
    write_states,
)
from hookline_kernels.cpu.prefill_tiles import (
    clear_state,
    mask_scores,
    score_tiles,
    soften_scores,
    weigh_tiles,
)
from hookline_kernels.cpu.recording import Again, Int64
from hookline_kernels.cpu.vectors import LOG2_E
from hookline_kernels.failure import KernelError
from hookline_kernels.metadata import PagedMetadata

_PIECE = 96
"""Tokens whose keys, values and scores are held at once: a first cache full."""
_TILE_BYTES = _PIECE * ROWS * (4 + 2)
"""Of a tile's scores and weights."""
ITEM_NUMBERS = 5
"""What a block of queries is told; see `tiled_kernel`."""
_ITEM_BYTES = 8 * ITEM_NUMBERS
_OF_A_STEP = slice(2, 7)
"""Of the kernel's numbers, those that all layers are told alike; see `note_step`."""
_MOST_ROWS = 768
"""Of a block of queries, those of all heads that share keys together."""


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
        """Of a block of queries."""
        return max(1, _MOST_ROWS // self.group)

    @property
    def panel_bytes(self) -> int:
        return 2 * _PIECE * (self.key_dim + self.value_dim)

    @property
    def query_bytes(self) -> int:
        """Of a tile of queries."""
        return 2 * ROWS * self.key_dim

    @property
    def state_bytes(self) -> int:
        """Of a tile of queries: largest scores, sums of weights, sums of values."""
        return 4 * ROWS * (2 + self.value_dim)

    @property
    def scratch_bytes(self) -> int:
        """What a thread needs."""
        tiles = -(-self.tokens * self.group // ROWS)
        return (
            self.panel_bytes
            + _TILE_BYTES
            + tiles * (self.query_bytes + self.state_bytes)
        )


class TiledPrefill:
    """Attends for the requests with several new tokens; one thread calls it."""

    def __init__(self, shape: PrefillShape, dtype: torch.dtype) -> None:
        """Compiles what is not compiled yet.

        Raises:
            KernelError: There is no matrix unit, or none for this shape.
        """
        check_tiles(shape, dtype)
        self._shape = shape
        self._kernel = tiled_kernel(shape)
        self._numbers = numbers_of(*[0] * 14)
        self._items = np.zeros((0, ITEM_NUMBERS), np.int64)
        self._scores = 0
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
        pairs = int((self._items[:, 2] * (self._items[:, 3] + 1)).sum())
        self._scores = pairs * self._shape.num_kv_heads * self._shape.group
        self._scratch = scratch_for(self._shape, self._scratch)
        note_step(self._numbers, self._items, metadata.block_tables, self._scratch)

    def __call__(
        self,
        query: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        output: torch.Tensor,
        scale: float,
        window: int | None,
        again: Again | None = None,
    ) -> None:
        """Fills the rows of the output that belong to these requests.

        Args:
            query: [T, heads, key dim], of the whole batch.
            keys: Of `layout.new_keys`, the step's own written.
            values: The same of `layout.new_values`.
            output: [T, heads, value dim], contiguous.
            scale: Multiplies the scores.
            window: A token sees so many tokens, itself included; None sees all.
            again: Has `begin_again` say what is new when a step is done from notes.
        """
        if query.stride(2) != 1:
            query = query.contiguous()
        note_layer(
            self._numbers, query, (keys, values), output, scale=scale, window=window
        )
        self._kernel(self._scores, self._numbers, again)

    def begin_again(self, calls: Int64) -> int:
        """Tells noted calls what `begin` noted; as `Again.begin`, threads."""
        calls[:, _OF_A_STEP] = self._numbers[_OF_A_STEP]
        return self._kernel.threads(self._scores)


def _items(
    query_lens: Sequence[int], seq_lens: Sequence[int], *, first: int, most: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Blocks of queries, [n, 5], as `tiled_kernel` is told them.

    Those that see most come first, so that no thread is left with a long one.
    """
    items, row = [], first
    for index, (count, length) in enumerate(zip(query_lens, seq_lens, strict=True)):
        for start in range(0, count, most):
            tokens = min(most, count - start)
            position = length - count + start
            last = position + tokens
            items.append((first + index, row + start, tokens, position, last))
        row += count
    items.sort(key=lambda item: -item[2] * item[3])
    return np.array(items, np.int64).reshape(-1, ITEM_NUMBERS)


def check_tiles(shape: PrefillShape, dtype: torch.dtype) -> None:
    """Raises `KernelError` where there are none for this."""
    if dtype != torch.bfloat16 or not has_tiles():
        raise KernelError(f"there is no matrix unit for {dtype}")
    if shape.key_dim % DEPTH or shape.value_dim % DEPTH or shape.block_size % ROWS:
        raise KernelError(f"tiles do not fit {shape}")


def scratch_for(shape: PrefillShape, scratch: torch.Tensor) -> torch.Tensor:
    """The same memory if it is enough for all threads, or else more of it."""
    needed = torch.get_num_threads() * shape.scratch_bytes + 64
    if len(scratch) >= needed:
        return scratch
    return torch.empty(needed, dtype=torch.uint8)


def note_step(
    numbers: Numbers,
    items: np.ndarray[Any, np.dtype[np.int64]],
    tables: torch.Tensor,
    scratch: torch.Tensor,
) -> None:
    """Writes down what all layers of a step tell `tiled_kernel`; all must be kept."""
    numbers[2], numbers[3] = len(items), items.ctypes.data
    numbers[4], numbers[5] = tables.data_ptr(), 8 * tables.stride(0)
    numbers[6] = -(-scratch.data_ptr() // 64) * 64


def note_layer(
    numbers: Numbers,
    query: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    target: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
) -> None:
    """Writes down what a layer tells it besides: keys and values are the cache."""
    numbers[1] = 0
    numbers[7], numbers[8] = query.data_ptr(), 2 * query.stride(0)
    numbers[9] = 2 * query.stride(1)
    numbers[10], numbers[11] = (each.data_ptr() for each in cache)
    numbers[12] = target.data_ptr()
    numbers[13] = UNBOUNDED if window is None else window
    numbers[14] = float_bits(scale * LOG2_E)


@functools.cache
def tiled_kernel(shape: PrefillShape, *, leaves_states: bool = False) -> Kernel:
    """Blocks of queries attend, and leave outputs or, as decode has them, states.

    Its numbers are: items, and their address; block tables' address and bytes a row;
    address of the threads' memory; queries' address, bytes a token and a head; keys'
    and values' addresses; address of outputs or states; window; bits of the scale in
    powers of 2. An item is five: the sequence whose blocks are read, first row of the
    queries, their number, position of the first, and how many tokens are seen at most.
    """
    group, kv_heads, block = shape.group, shape.num_kv_heads, shape.block_size
    key_dim, value_dim = shape.key_dim, shape.value_dim
    query_bytes, state_bytes = shape.query_bytes, shape.state_bytes
    panel_bytes, scratch_bytes = shape.panel_bytes, shape.scratch_bytes
    record_bytes = query_bytes + state_bytes
    heads = kv_heads * group
    token_bytes = heads * (4 * (2 + value_dim) if leaves_states else 2 * value_dim)
    lay_piece, attend_tile = _piece_layer(shape), _tile_attender(shape)
    leave = _state_leaver(shape) if leaves_states else _output_writer(shape)

    def prefill(numbers: Any) -> None:
        given = array_at(numbers, 15, np.int64)
        panel = given[6] + take(numbers + 8, 1) * scratch_bytes
        scores = panel + panel_bytes
        queries = scores + _TILE_BYTES
        before = open_tiles()
        work = take(numbers, 1)
        while work < given[2] * kv_heads:
            item, head = given[3] + work // kv_heads * _ITEM_BYTES, work % kv_heads
            table = given[4] + int_at(item, 0) * given[5]
            first, count, position = int_at(item, 1), int_at(item, 2), int_at(item, 3)
            rows = count * group
            tiles = (rows + ROWS - 1) // ROWS
            source = given[7] + first * given[8] + head * group * given[9]
            for tile in range(tiles):
                target = queries + tile * record_bytes
                lay_queries(
                    source,
                    given[8],
                    given[9],
                    tile * ROWS,
                    rows,
                    target,
                    group,
                    key_dim,
                )
                clear_state(queries + tile * record_bytes + query_bytes, value_dim)
            last = int_at(item, 4)
            at = max(0, position + 1 - given[13]) // block * block
            while at < last:
                stop = min(at + _PIECE, last)
                lay_piece(given[10], given[11], table, head, at, stop, panel)
                for tile in range(tiles):
                    attend_tile(
                        given,
                        queries + tile * record_bytes,
                        panel,
                        queries + tile * record_bytes + query_bytes,
                        tile * ROWS,
                        rows,
                        position - at,
                        stop - at,
                    )
                at = stop
            output = given[12] + first * token_bytes
            for tile in range(tiles):
                state = queries + tile * record_bytes + query_bytes
                leave(state, output, head * group, tile * ROWS, rows)
            work = take(numbers, 1)
        close_tiles(before)

    kind = "prefix" if leaves_states else "prefill"
    name = f"{kind}-{group}-{kv_heads}-{key_dim}-{value_dim}-{block}"
    return Kernel(prefill, name)


def _output_writer(shape: PrefillShape) -> Any:
    group, value_dim = shape.group, shape.value_dim
    token_bytes = 2 * shape.num_kv_heads * group * value_dim

    def write_output(state: int, output: int, head: int, row: int, rows: int) -> None:
        """16 rows' outputs; the group's heads begin at `head`."""
        sums, own = state + 8 * ROWS, output + head * value_dim * 2
        whole = state + 4 * ROWS
        write_rows(sums, whole, own, token_bytes, row, rows, group, value_dim)

    return njit(write_output)


def _state_leaver(shape: PrefillShape) -> Any:
    group, value_dim = shape.group, shape.value_dim
    heads = shape.num_kv_heads * group
    token_bytes = 4 * heads * (2 + value_dim)

    def leave_states(state: int, output: int, head: int, row: int, rows: int) -> None:
        """16 rows' states."""
        write_states(
            state, output, token_bytes, head, row, rows, heads, group, value_dim
        )

    return njit(leave_states)


def _tile_attender(shape: PrefillShape) -> Any:
    group, key_dim, value_dim = shape.group, shape.key_dim, shape.value_dim
    panel_bytes, value_panel = shape.panel_bytes, 2 * _PIECE * key_dim

    def attend_tile(  # noqa: PLR0917 - numba passes by position
        given: Any,
        queries: int,
        panel: int,
        state: int,
        row: int,
        rows: int,
        shift: int,
        stop: int,
    ) -> None:
        """16 rows from `row` on see a piece of `stop` tokens.

        A row's token is `shift` tokens behind the piece's first, and as many more as it
        has tokens before it.
        """
        window = given[13]
        lowest = shift + row // group
        highest = shift + (min(row + ROWS, rows) - 1) // group
        start = max(0, lowest + 1 - window) // DEPTH * DEPTH
        end = (min(stop, highest + 1) + DEPTH - 1) // DEPTH * DEPTH
        if start >= end:
            return
        scores = panel + panel_bytes
        weights = scores + 4 * _PIECE * ROWS
        score_tiles(queries, panel, start, end, scores, key_dim)
        unseen = max(start, min(end, highest + 1 - window))
        mask_scores(scores, start, unseen, row, shift, window, group)
        future = max(unseen, min(end, lowest + 1))
        mask_scores(scores, future, end, row, shift, window, group)
        factor = to_float(given[14])
        soften_scores(scores, start, end, weights, state, factor, value_dim)
        sums, values = state + 8 * ROWS, panel + value_panel
        weigh_tiles(weights, values, start, end, sums, value_dim)

    return njit(attend_tile)


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
            target = panel + value_panel + at // 32 * 64 * value_dim + at % 32 * 2
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
