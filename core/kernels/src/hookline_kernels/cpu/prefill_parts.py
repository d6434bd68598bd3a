"""The parts of prefill attention, on tiles or on vectors, as functions of numba.

Where products take bfloat16 numbers, weights are rounded to bfloat16, too.
"""

from typing import Any

from hookline_kernels.cpu.amx import DEPTH, ROWS
from hookline_kernels.cpu.cache_formats import (
    bytes_of,
    page_size,
    widen_keys,
    widen_values,
)
from hookline_kernels.cpu.elements import exact, to_float
from hookline_kernels.cpu.memory import int_at
from hookline_kernels.cpu.panels import close_tiles, open_tiles
from hookline_kernels.cpu.prefill_biases import lean_scores, seed_state
from hookline_kernels.cpu.prefill_call import GRAIN, PIECE, Form, PrefillShape
from hookline_kernels.cpu.prefill_panels import lay_keys, lay_values
from hookline_kernels.cpu.prefill_rows import lay_queries, write_rows, write_states
from hookline_kernels.cpu.prefill_softmax import (
    clear_state,
    hide_scores,
    mask_scores,
    update_softmax,
)
from hookline_kernels.cpu.prefill_tiles import score_tiles, weigh_tiles
from hookline_kernels.cpu.prefill_vectors import score_vectors, weigh_vectors

_SOFTMAX_TOKENS = 8
"""Tokens per iteration of softmax without tiles; divides GRAIN."""


def unit_switches(shape: PrefillShape) -> tuple[Any, Any]:
    """Returns functions that configure the matrix unit, and restore its state."""
    if shape.form is Form.TILES:
        return open_tiles, close_tiles
    return _open_nothing, _close_nothing


@exact
def _open_nothing() -> int:
    return 0


@exact
def _close_nothing(before: int) -> None:
    """Vectors have no state."""


def piece_layer(shape: PrefillShape) -> Any:
    """Returns a function that lays a piece's keys and values out, from their pages."""
    block, kv_heads, form = shape.block_size, shape.num_kv_heads, shape.cache_format
    key_dim, value_dim = shape.key_dim, shape.value_dim
    key_page, value_page = (page_size(dim, block, form) for dim in (key_dim, value_dim))
    number, value_panel = shape.panel_size, shape.panel_size * PIECE * key_dim
    stored, is_widened = bytes_of(form), shape.widened_bytes > 0
    # what is laid out: pages, or the thread's copy of 16 tokens
    size, stride = (number, ROWS) if is_widened else (stored, block)
    widened = shape.scratch_bytes - shape.widened_bytes
    is_tiled = shape.form is Form.TILES
    # tokens that are laid out together, and bytes of a token's key
    grain, key_bytes = (DEPTH, 2 * key_dim) if is_tiled else (ROWS, 4)
    span = DEPTH if is_tiled else 1

    def lay_piece(  # noqa: PLR0917 - numba passes by position
        keys: int, values: int, table: int, head: int, start: int, stop: int, panel: int
    ) -> None:
        """Lays the tokens start … stop - 1 out; tiles get 0 up to a multiple of 32."""
        end = start + (stop - start + grain - 1) // grain * grain
        for token in range(start, end, ROWS):
            at = token - start
            key_to = panel + key_bytes * at
            value_to = panel + value_panel
            value_to += (at // span * span * value_dim + at % span) * number
            if is_tiled and token >= stop:
                # nothing of it is kept
                lay_values(values, value_to, 0, value_dim, size, number, is_tiled)
                continue
            page = int_at(table, token // block) * kv_heads + head
            within = token % block
            key, value = keys + page * key_page, values + page * value_page
            left = stop - token
            if is_widened:
                to = panel + widened
                widen_keys(key, within, to, key_dim, block, form, number)
                lay_keys(to, key_to, key_dim, stride, size, number, is_tiled)
                widen_values(value, within, to, value_dim, block, form, number)
                lay_values(to, value_to, left, value_dim, size, number, is_tiled)
                continue
            key += within * stored
            lay_keys(key, key_to, key_dim, stride, size, number, is_tiled)
            value += within * stored * value_dim
            lay_values(value, value_to, left, value_dim, size, number, is_tiled)

    return exact(lay_piece)


def query_layer(shape: PrefillShape) -> Any:
    """Returns a function that lays 16 rows of queries out."""
    group, key_dim = shape.group, shape.key_dim
    size, panel_size = shape.size, shape.panel_size

    def lay(  # noqa: PLR0917 - numba passes by position
        source: int, by_token: int, by_head: int, first: int, rows: int, target: int
    ) -> None:
        lay_queries(
            source,
            by_token,
            by_head,
            first,
            rows,
            target,
            group,
            key_dim,
            size,
            panel_size,
        )

    return exact(lay)


def state_opener(shape: PrefillShape) -> Any:
    """Returns a function that begins the state of 16 rows, which have seen no token."""
    group, value_dim = shape.group, shape.value_dim

    def begin(given: Any, state: int, head: int, row: int) -> None:
        """Rows begin with `row`, the group's heads with `head`.

        A state that is written is joined with others, and sinks count once.
        """
        clear_state(state, value_dim)
        if given[16] and not given[15]:
            seed_state(state, given[16] + 4 * head, row, group)

    return exact(begin)


def tile_attender(shape: PrefillShape) -> Any:
    """Returns a function that attends for 16 rows to a piece; updates their state."""
    is_tiled = shape.form is Form.TILES
    score, weigh = score_vectors, weigh_vectors
    grain, pace = GRAIN, _SOFTMAX_TOKENS
    if is_tiled:
        score, weigh = score_tiles, weigh_tiles
        grain, pace = DEPTH, ROWS
    group, key_dim, value_dim = shape.group, shape.key_dim, shape.value_dim
    panel_bytes = shape.panel_bytes
    value_panel = shape.panel_size * PIECE * key_dim
    pairs = int(shape.panel_size == 2)
    weights_at = pairs * 4 * PIECE * ROWS

    def attend_tile(  # noqa: PLR0917 - numba passes by position
        given: Any,
        queries: int,
        panel: int,
        state: int,
        row: int,
        rows: int,
        shift: int,
        stop: int,
        head: int,
    ) -> None:
        """Attends for 16 rows, from `row` on, to a piece of `stop` tokens.

        A row's token is `shift` tokens behind the piece's first, and as many more as it
        has tokens before it. The group's heads begin at `head`.
        """
        window = given[13]
        lowest = shift + row // group
        highest = shift + (min(row + ROWS, rows) - 1) // group
        start = max(0, lowest + 1 - window) // grain * grain
        seen = min(stop, highest + 1)
        if start >= seen:
            return
        end = (seen + grain - 1) // grain * grain
        scores = panel + panel_bytes
        weights = scores + weights_at
        score(queries, panel, start, end, scores, key_dim, pairs)
        factor, slopes = to_float(given[14]), given[17]
        if slopes:
            own = slopes + 4 * head
            lean_scores(scores, start, end, row, shift, own, factor, group)
        hide_scores(scores, seen, end)
        unseen = max(start, min(seen, highest + 1 - window))
        mask_scores(scores, start, unseen, row, shift, window, group)
        future = max(unseen, min(seen, lowest + 1))
        mask_scores(scores, future, seen, row, shift, window, group)
        update_softmax(
            scores, start, end, weights, state, factor, value_dim, pairs, pace
        )
        sums, values = state + 8 * ROWS, panel + value_panel
        weigh(weights, values, start, seen, sums, value_dim, pairs)

    return exact(attend_tile)


def result_writer(shape: PrefillShape) -> Any:
    """Returns a function that writes 16 rows' outputs, or their states."""
    group, value_dim, size = shape.group, shape.value_dim, shape.size
    heads = shape.num_kv_heads * group
    output_bytes, state_bytes = size * heads * value_dim, 4 * heads * (2 + value_dim)

    def write(  # noqa: PLR0917 - numba passes by position
        numbers: int, state: int, first: int, head: int, row: int, rows: int
    ) -> None:
        """Writes rows from `row` on of a block that begins with token `first`.

        The group's heads begin at `head`.
        """
        if int_at(numbers, 15) != 0:
            to = int_at(numbers, 12) + first * state_bytes
            write_states(
                state, to, state_bytes, head, row, rows, heads, group, value_dim
            )
            return
        totals, sums = state + 4 * ROWS, state + 8 * ROWS
        to = int_at(numbers, 12) + first * output_bytes + head * value_dim * size
        write_rows(sums, totals, to, output_bytes, row, rows, group, value_dim, size)

    return exact(write)
