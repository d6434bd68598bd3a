"""The parts of prefill attention on the matrix unit's tiles.

Weights are rounded to bfloat16 for their product with the values.
"""

from typing import Any

from numba import njit

from hookline_kernels.cpu.amx import DEPTH, ROWS
from hookline_kernels.cpu.cache_formats import (
    bytes_of,
    page_size,
    widen_keys,
    widen_values,
)
from hookline_kernels.cpu.elements import to_float
from hookline_kernels.cpu.memory import int_at
from hookline_kernels.cpu.panels import close_tiles, open_tiles
from hookline_kernels.cpu.prefill_call import PIECE, PrefillParts, PrefillShape
from hookline_kernels.cpu.prefill_panels import (
    lay_keys,
    lay_queries,
    lay_values,
    write_rows,
)
from hookline_kernels.cpu.prefill_tiles import (
    mask_scores,
    score_tiles,
    soften_scores,
    weigh_tiles,
)


def tile_parts(shape: PrefillShape) -> PrefillParts:
    """Returns functions for numba's kernels."""
    return PrefillParts(
        open_unit=open_tiles,
        close_unit=close_tiles,
        lay_piece=_piece_layer(shape),
        lay_queries=query_layer(shape),
        attend_tile=_tile_attender(shape),
        write_output=_output_writer(shape),
    )


def query_layer(shape: PrefillShape) -> Any:
    """Returns a function that lays 16 rows of queries out in bfloat16."""
    group, key_dim = shape.group, shape.key_dim

    def lay(  # noqa: PLR0917 - numba passes by position
        source: int, by_token: int, by_head: int, first: int, rows: int, target: int
    ) -> None:
        lay_queries(source, by_token, by_head, first, rows, target, group, key_dim)

    return njit(lay)


def _output_writer(shape: PrefillShape) -> Any:
    group, value_dim = shape.group, shape.value_dim
    token_bytes = 2 * shape.num_kv_heads * group * value_dim

    def write_output(state: int, output: int, head: int, row: int, rows: int) -> None:
        """16 rows' outputs; the group's heads begin at `head`."""
        sums, own = state + 8 * ROWS, output + head * value_dim * 2
        whole = state + 4 * ROWS
        write_rows(sums, whole, own, token_bytes, row, rows, group, value_dim)

    return njit(write_output)


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
        soften_scores(scores, start, end, weights, state, factor, value_dim, 1, ROWS)
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
