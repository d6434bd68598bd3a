"""Attention of many new tokens over paged keys and values, by matrix products.

Cached and new tokens are read alike, from their pages. As in decode, softmax is
computed piece by piece (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention);
a piece stays in the L1 cache while a block of queries passes it, tile by tile. Weights
are rounded to bfloat16 for their product with the values.
"""

import functools
from typing import Any

import numpy as np
from numba import njit

from hookline_kernels.cpu.amx import DEPTH, ROWS
from hookline_kernels.cpu.cache_formats import (
    bytes_of,
    page_size,
    widen_keys,
    widen_values,
)
from hookline_kernels.cpu.elements import array_at, to_float
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import int_at, take
from hookline_kernels.cpu.panels import close_tiles, open_tiles
from hookline_kernels.cpu.prefill_call import (
    ITEM_NUMBERS,
    PIECE,
    TILE_BYTES,
    PrefillShape,
)
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

_ITEM_BYTES = 8 * ITEM_NUMBERS


@functools.cache
def tiled_kernel(shape: PrefillShape, *, leaves_states: bool = False) -> Kernel:
    """Compiles attention of blocks of queries, once a process.

    Writes outputs or, with `leaves_states`, softmax states as decode has them. Its
    arguments: number of items and their address; block tables' address and bytes per
    row; address of the scratch memory; queries' address, bytes per token and per head;
    keys' and values' addresses; address of the outputs or states; window; bits of the
    scale in powers of 2. An item is five numbers: the request whose blocks are read,
    first query row, number of rows, position of the first, and number of tokens that
    the last one attends to.
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
        queries = scores + TILE_BYTES
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
                stop = min(at + PIECE, last)
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
    if shape.widened_bytes:
        name += f"-from-{shape.cache_format}"
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
    panel_bytes, value_panel = shape.panel_bytes, 2 * PIECE * key_dim

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
        weights = scores + 4 * PIECE * ROWS
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
    form = shape.cache_format
    is_widened, number_bytes = shape.widened_bytes > 0, bytes_of(form)
    key_page, value_page = (page_size(dim, block, form) for dim in (key_dim, value_dim))
    value_panel = 2 * PIECE * key_dim
    widened = shape.scratch_bytes - shape.widened_bytes

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
            key, value = keys + page * key_page, values + page * value_page
            if is_widened:
                to = panel + widened
                widen_keys(key, within, to, key_dim, block, form, 2)
                lay_keys(to, panel + 2 * at * key_dim, key_dim, ROWS)
                widen_values(value, within, to, value_dim, block, form, 2)
                lay_values(to, target, stop - token, value_dim)
                continue
            key += within * number_bytes
            lay_keys(key, panel + 2 * at * key_dim, key_dim, block)
            value += within * number_bytes * value_dim
            lay_values(value, target, stop - token, value_dim)

    return njit(lay_piece)
