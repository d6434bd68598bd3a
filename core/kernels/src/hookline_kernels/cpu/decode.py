"""Attention of one new token of each request over its paged keys and values.

Softmax is computed piece by piece (Milakov and Gimelshein 2018): each head keeps its
maximum score, the sum of its weights and the weighted sum of the values. A request that
is cut into parts, for more threads, leaves one such state per part; the thread that
finishes the last part merges them (Dao et al. 2023, Flash-Decoding).

Requests with a shared prefix continue from the prefix's state.

With trees a kernel also masks tokens by `TreeMask`, and counts its window from the
token's position.

Widths of heads and blocks that are multiples of 16 are the fastest, over a cache of
bfloat16 or 8-bit numbers; a block size of 1 is the slowest, as keys are then scored one
by one. Requests with a long prefix in common are faster by `shared_prefixes`.

A state of H heads is float32: H maximum scores, H sums of weights, H rows of values.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32
from numba.np.numpy_support import carray

from hookline_kernels.cpu.cache_formats import page_size
from hookline_kernels.cpu.decode_call import DecodeShape
from hookline_kernels.cpu.elements import exact
from hookline_kernels.cpu.memory import (
    address_of,
    clear,
    float_at,
    int_at,
    set_float,
    take,
)
from hookline_kernels.cpu.rows import row_cap, row_exp, row_max, row_ramp, scale_row
from hookline_kernels.cpu.tiles import score_tile, value_tile
from hookline_kernels.cpu.vectors import LANES
from hookline_kernels.metadata import TREE_BITS

_LOWEST = np.float32(-np.inf)


def decode_body(shape: DecodeShape) -> Callable[[Any], None]:
    """Returns the kernel's Python; all threads of a team run it on the same call."""
    row, piece_tokens, block = shape.row, shape.piece_tokens, shape.block_size
    group, key_dim, value_dim = shape.group, shape.key_dim, shape.value_dim
    bounds_of, load_query = _bounds_finder(shape), _query_loader(shape)
    score, update_softmax = _scorer(shape), _softmax_updater(shape)
    weigh = _weigher(shape)
    write = _writer(shape)
    merge = _merger(shape)

    def decode(pointer: Any) -> None:
        call = carray(pointer, 1)[0]
        heads = group * call.num_kv_heads
        thread = take(address_of(pointer) + 8, 1)
        query = call.scratch + thread * call.scratch_bytes
        scores = query + 4 * heads * key_dim
        own_state = scores + 4 * heads * row
        state_bytes = 4 * heads * (2 + value_dim)
        sequence, before = 0, 0  # a request, and the parts of all before it
        work = take(address_of(pointer), 1)
        while sequence < call.num_seqs:
            length = int_at(call.seq_lens, sequence)
            lowest, unseen, position = bounds_of(call, sequence, length)
            start = lowest // block * block
            prefix = 0
            if call.prefixes != 0 and int_at(call.prefix_lens, sequence) > 0:
                prefix = call.prefixes + sequence * state_bytes
                start = int_at(call.prefix_lens, sequence)
            parts = (length - start + call.part_tokens - 1) // call.part_tokens
            if work >= before + parts:
                before += parts
                sequence += 1
                continue
            state = own_state if parts == 1 else call.states + work * state_bytes
            load_query(call, sequence, query, state, prefix if work == before else 0)
            at = start + (work - before) * call.part_tokens
            end = min(length, at + call.part_tokens)
            table = call.block_tables + sequence * call.table_bytes
            while at < end:
                stop = min(at + piece_tokens, end)
                score(call, table, query, scores, at, stop)
                first = max(at, lowest)
                update_softmax(
                    call, scores, state, at, first, stop, length, unseen, position
                )
                weigh(call, table, scores, state, at, first, stop)
                at = stop
            if parts == 1:
                write(call, sequence, own_state)
            elif take(call.parts_done + 8 * sequence, 1) == parts - 1:
                clear(call.parts_done + 8 * sequence)
                merge(heads, call.states + before * state_bytes, parts, own_state)
                write(call, sequence, own_state)
            work = take(address_of(pointer), 1)

    return decode


def _bounds_finder(shape: DecodeShape) -> Any:
    has_trees = shape.has_trees

    def bounds_of(call: Any, sequence: int, length: int) -> tuple[int, int, int]:
        """Returns the window's first token, the mask of hidden tokens, the position."""
        if has_trees and call.unseen != 0:
            behind = length - int_at(call.num_unseen, sequence)
            lowest = max(0, behind - call.window)
            return lowest, int_at(call.unseen, sequence), behind - 1
        return max(0, length - call.window), 0, length - 1

    return exact(bounds_of)


def _query_loader(shape: DecodeShape) -> Any:
    group, key_dim, value_dim = shape.group, shape.key_dim, shape.value_dim
    size = shape.element_size

    def load_query(
        call: Any, sequence: int, query: int, state: int, prefix: int
    ) -> None:
        """Loads scaled queries of all heads, and the prefix's state or an empty one."""
        heads = group * call.num_kv_heads
        source = call.query + sequence * call.query_token_bytes
        for head in range(heads):
            at = source + head * call.query_head_bytes
            scale_row(at, query + 4 * head * key_dim, call.scale, key_dim, size, 4)
            set_float(state, head, _LOWEST)
        for index in range(heads, heads * (2 + value_dim)):
            set_float(state, index, float32(0.0))
        if prefix != 0:
            for index in range(heads * (2 + value_dim)):
                set_float(state, index, float_at(prefix, index))

    return exact(load_query)


def _scorer(shape: DecodeShape) -> Any:
    group, key_dim, block, row = (
        shape.group,
        shape.key_dim,
        shape.block_size,
        shape.row,
    )
    form = shape.cache_format
    tile_bytes = page_size(key_dim, block, form)
    value_bytes = page_size(shape.value_dim, block, form)

    def score(  # noqa: PLR0917 - numba passes by position
        call: Any, table: int, query: int, scores: int, start: int, stop: int
    ) -> None:
        """Scores tokens start … stop - 1, and the rest of the last block."""
        kv_heads = call.num_kv_heads
        for index in range(start // block, (stop + block - 1) // block):
            tile = call.keys + int_at(table, index) * kv_heads * tile_bytes
            output = scores + 4 * (index * block - start)
            if (index + 1) * block < stop:
                page = call.keys + int_at(table, index + 1) * kv_heads * tile_bytes
            else:
                page = (
                    call.values + int_at(table, start // block) * kv_heads * value_bytes
                )
            for head in range(kv_heads):
                ahead = page + head * tile_bytes
                own = query + 4 * head * group * key_dim
                to = output + 4 * head * group * row
                score_tile(own, tile, ahead, to, row, group, key_dim, block, form)
                tile += tile_bytes

    return exact(score)


def _softmax_updater(shape: DecodeShape) -> Any:
    group, value_dim, row = shape.group, shape.value_dim, shape.row
    has_trees = shape.has_trees
    add_slopes = _slope_adder(shape)

    def update_softmax(  # noqa: PLR0917 - numba passes by position
        call: Any,
        scores: int,
        state: int,
        start: int,
        first: int,
        stop: int,
        length: int,
        unseen: int,
        position: int,
    ) -> None:
        """Turns scores of first … stop - 1 into weights; rescales the state."""
        heads = group * call.num_kv_heads
        count = (stop - start + LANES - 1) // LANES * LANES
        for head in range(heads):
            own = scores + 4 * head * row
            if call.softcap > 0:
                row_cap(own, count, call.softcap)
            add_slopes(call, head, own, count, start, stop, length, unseen, position)
            for token in range(first - start):
                set_float(own, token, _LOWEST)
            for token in range(stop - start, count):
                set_float(own, token, _LOWEST)
            if has_trees and unseen != 0:
                for token in range(max(first, length - TREE_BITS), stop):
                    if unseen >> (length - 1 - token) & 1:
                        set_float(own, token - start, _LOWEST)
            old = float_at(state, head)
            top = max(old, row_max(own, count))
            fade = float32(math.exp(old - top))
            total = float_at(state, heads + head) * fade + row_exp(own, count, top)
            set_float(state, head, top)
            set_float(state, heads + head, total)
            values = state + 4 * (2 * heads + head * value_dim)
            if fade != float32(1.0):
                scale_row(values, values, fade, value_dim, 4, 4)

    return exact(update_softmax)


def _slope_adder(shape: DecodeShape) -> Any:
    has_trees = shape.has_trees

    def add_slopes(  # noqa: PLR0917 - numba passes by position
        call: Any,
        head: int,
        scores: int,
        count: int,
        start: int,
        stop: int,
        length: int,
        unseen: int,
        position: int,
    ) -> None:
        """Adds slope · (position of the key - position of the query) to the scores."""
        if call.slopes == 0:
            return
        slope = float_at(call.slopes, head)
        row_ramp(scores, count, float32(start - position), slope)
        if has_trees and unseen != 0:
            hidden = 0
            for token in range(max(0, length - TREE_BITS), stop):
                hidden += unseen >> (length - 1 - token) & 1
                if token >= start:
                    score = float_at(scores, token - start)
                    set_float(scores, token - start, score - slope * float32(hidden))

    return exact(add_slopes)


def _weigher(shape: DecodeShape) -> Any:
    group, value_dim, block, row = (
        shape.group,
        shape.value_dim,
        shape.block_size,
        shape.row,
    )
    form = shape.cache_format
    tile_bytes = page_size(value_dim, block, form)

    def weigh(  # noqa: PLR0917 - numba passes by position
        call: Any,
        table: int,
        scores: int,
        state: int,
        start: int,
        first: int,
        stop: int,
    ) -> None:
        """Adds the weighted values of first … stop - 1 to the state."""
        kv_heads = call.num_kv_heads
        sums = state + 8 * group * kv_heads
        for index in range(start // block, (stop + block - 1) // block):
            tile = call.values + int_at(table, index) * kv_heads * tile_bytes
            page = tile
            if (index + 1) * block < stop:
                page = call.values + int_at(table, index + 1) * kv_heads * tile_bytes
            weights = scores + 4 * (index * block - start)
            low = max(0, first - index * block)
            high = min(block, stop - index * block)
            for head in range(kv_heads):
                ahead = page + head * tile_bytes
                own = weights + 4 * head * group * row
                to = sums + 4 * head * group * value_dim
                value_tile(
                    own,
                    row,
                    tile,
                    ahead,
                    to,
                    low,
                    high,
                    group,
                    value_dim,
                    block,
                    form,
                )
                tile += tile_bytes

    return exact(weigh)


def _writer(shape: DecodeShape) -> Any:
    group, value_dim, size = shape.group, shape.value_dim, shape.element_size

    def write(call: Any, sequence: int, state: int) -> None:
        """Writes the output of a finished state; a sink takes its share first."""
        heads = group * call.num_kv_heads
        target = call.output + sequence * call.output_token_bytes
        for head in range(heads):
            values = state + 4 * (2 * heads + head * value_dim)
            total = float_at(state, heads + head)
            if call.sinks != 0:
                over = float_at(call.sinks, head) - float_at(state, head)
                total += float32(math.exp(over))
            share = float32(1.0) / total
            to = target + head * value_dim * size
            scale_row(values, to, share, value_dim, 4, size)

    return exact(write)


def _merger(shape: DecodeShape) -> Any:
    value_dim = shape.value_dim

    def merge(heads: int, states: int, count: int, into: int) -> None:
        """Merges the states of a request's parts."""
        state_bytes = 4 * heads * (2 + value_dim)
        for head in range(heads):
            top = _LOWEST
            for part in range(count):
                top = max(top, float_at(states + part * state_bytes, head))
            total = float32(0.0)
            row = 2 * heads + head * value_dim
            for index in range(row, row + value_dim):
                set_float(into, index, float32(0.0))
            for part in range(count):
                state = states + part * state_bytes
                factor = float32(math.exp(float_at(state, head) - top))
                total += factor * float_at(state, heads + head)
                for index in range(row, row + value_dim):
                    sum_so_far = float_at(into, index)
                    added = sum_so_far + factor * float_at(state, index)
                    set_float(into, index, added)
            set_float(into, head, top)
            set_float(into, heads + head, total)

    return exact(merge)
