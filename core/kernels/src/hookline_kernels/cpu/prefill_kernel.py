"""Attention of many new tokens over paged keys and values, by matrix products.

Cached and new tokens are read alike, from their pages. As in decode, softmax is
computed piece by piece (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention);
a piece stays in the caches while a block of queries passes it, tile by tile.

Paths, the fastest first: tiles of the matrix unit; dot products of bfloat16 pairs on
AMD's processors from Zen 4 and on NEON; float32 vectors on AVX-512, then on AVX2 and
NEON. The slowest is `prefill.attend_sequence`, torch's attention over gathered pages:
for soft caps, and for widths and blocks that fill no tiles.
"""

import functools
from typing import Any

import numpy as np

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.elements import array_at, exact, summing
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import int_at, take
from hookline_kernels.cpu.prefill_call import (
    ITEM_NUMBERS,
    PIECE,
    SCORE_BYTES,
    PrefillShape,
)
from hookline_kernels.cpu.prefill_parts import (
    piece_layer,
    query_layer,
    result_writer,
    state_opener,
    tile_attender,
    unit_switches,
)

_ITEM_BYTES = 8 * ITEM_NUMBERS


@functools.cache
def tiled_kernel(shape: PrefillShape) -> Kernel:
    """Compiles attention of blocks of queries, once a process.

    Its arguments: number of items and their address; block tables' address and bytes
    per row; address of the scratch memory; queries' address, bytes per token and per
    head; keys' and values' addresses; address of the results; window; bits of the scale
    in powers of 2; 1 if the results are softmax states as decode has them, 0 if they
    are outputs; addresses of sinks and slopes, float32 by head, 0 without. An item is
    five numbers: the request whose blocks are read, first query row, number of rows,
    position of the first, and number of tokens that the last one attends to.
    """
    group, kv_heads, block = shape.group, shape.num_kv_heads, shape.block_size
    value_dim = shape.value_dim
    scratch_bytes = shape.scratch_bytes
    open_unit, close_unit = unit_switches(shape)
    attend = _item_attender(shape)

    def prefill(numbers: Any) -> None:
        given = array_at(numbers, 18, np.int64)
        panel = given[6] + take(numbers + 8, 1) * scratch_bytes
        before = open_unit()
        work = take(numbers, 1)
        while work < given[2] * kv_heads:
            item, head = given[3] + work // kv_heads * _ITEM_BYTES, work % kv_heads
            table = given[4] + int_at(item, 0) * given[5]
            first, count, position = int_at(item, 1), int_at(item, 2), int_at(item, 3)
            last = int_at(item, 4)
            broken = attend(numbers, panel, table, head, first, count, position, last)
            token = count
            if broken >= 0 and given[15] == 0:
                # Weights of 0 do not keep a not-a-number from the tokens before it.
                token = broken * ROWS // group
            while token < count:
                own = position + token
                broken = attend(
                    numbers, panel, table, head, first + token, 1, own, own + 1
                )
                token = count if broken >= 0 else token + 1  # those after it attend
            work = take(numbers, 1)
        close_unit(before)

    name = f"prefill-{shape.form.value}{shape.size}-{group}-{kv_heads}"
    name += f"-{shape.key_dim}-{value_dim}-{block}"
    if shape.widened_bytes:
        name += f"-from-{shape.cache_format}"
    return Kernel(prefill, name)


def _item_attender(shape: PrefillShape) -> Any:
    """Returns a function that attends for a block of queries.

    It returns the first of its tiles that has a sum that is no number, or -1.
    """
    group, block, value_dim = shape.group, shape.block_size, shape.value_dim
    query_bytes, state_bytes = shape.query_bytes, shape.state_bytes
    panel_bytes, record_bytes = shape.panel_bytes, query_bytes + state_bytes
    lay_piece, lay_queries = piece_layer(shape), query_layer(shape)
    begin_state = state_opener(shape)
    attend_tile, write_results = tile_attender(shape), result_writer(shape)

    def attend(  # noqa: PLR0917 - numba passes by position
        numbers: int,
        panel: int,
        table: int,
        head: int,
        first: int,
        count: int,
        position: int,
        last: int,
    ) -> int:
        given = array_at(numbers, 18, np.int64)
        queries = panel + panel_bytes + SCORE_BYTES
        rows = count * group
        tiles = (rows + ROWS - 1) // ROWS
        source = given[7] + first * given[8] + head * group * given[9]
        for tile in range(tiles):
            target = queries + tile * record_bytes
            lay_queries(source, given[8], given[9], tile * ROWS, rows, target)
            begin_state(given, target + query_bytes, head * group, tile * ROWS)
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
                    head * group,
                )
            at = stop
        broken = -1
        for tile in range(tiles):
            state = queries + tile * record_bytes + query_bytes
            write_results(numbers, state, first, head * group, tile * ROWS, rows)
            if broken < 0 and _is_broken(state, ROWS * (2 + value_dim)):
                broken = tile
        return broken

    return exact(attend)


@summing
def _is_broken(address: Any, count: Any) -> Any:
    """Whether one of some float32 numbers is none, or infinite."""
    numbers = array_at(address, count, np.float32)
    total = np.float32(0.0)
    for index in range(count):
        total += numbers[index] * np.float32(0.0)
    return total != total  # noqa: PLR0124 - only a not-a-number differs from itself
