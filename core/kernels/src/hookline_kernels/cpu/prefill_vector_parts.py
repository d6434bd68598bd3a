"""The parts of prefill attention on vectors, for CPUs without a matrix unit.

Numbers are float32 or, on CPUs with fast dot products, pairs of bfloat16, to which
weights are rounded, too.
"""

from typing import Any

from numba import njit

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.cache_formats import (
    bytes_of,
    page_size,
    widen_keys,
    widen_values,
)
from hookline_kernels.cpu.elements import to_float
from hookline_kernels.cpu.memory import int_at
from hookline_kernels.cpu.prefill_call import (
    GRAIN,
    PIECE,
    Form,
    PrefillParts,
    PrefillShape,
)
from hookline_kernels.cpu.prefill_layouts import (
    lay_float_keys,
    lay_float_queries,
    lay_float_values,
    lay_pair_keys,
    lay_pair_values,
    write_float_rows,
)
from hookline_kernels.cpu.prefill_tile_parts import query_layer
from hookline_kernels.cpu.prefill_tiles import mask_scores, soften_scores
from hookline_kernels.cpu.prefill_vectors import (
    hide_scores,
    score_vectors,
    weigh_vectors,
)

_SOFTENED = 8
"""Tokens per iteration of softmax; divides GRAIN."""


def vector_parts(shape: PrefillShape) -> PrefillParts:
    """Returns functions for numba's kernels."""
    is_paired = shape.form is Form.PAIRS
    return PrefillParts(
        open_unit=_open_nothing,
        close_unit=_close_nothing,
        lay_piece=_piece_layer(shape),
        lay_queries=query_layer(shape) if is_paired else _query_layer(shape),
        attend_tile=_tile_attender(shape),
        write_output=_output_writer(shape),
    )


@njit
def _open_nothing() -> int:
    return 0


@njit
def _close_nothing(before: int) -> None:
    """Vectors have no state."""


def _piece_layer(shape: PrefillShape) -> Any:
    block, kv_heads, form = shape.block_size, shape.num_kv_heads, shape.cache_format
    key_dim, value_dim = shape.key_dim, shape.value_dim
    key_page, value_page = (page_size(dim, block, form) for dim in (key_dim, value_dim))
    size, number_bytes = shape.panel_size, bytes_of(form)
    value_panel = size * PIECE * key_dim
    widened = shape.scratch_bytes - shape.widened_bytes
    is_widened, is_paired = shape.widened_bytes > 0, shape.form is Form.PAIRS
    lay_key, lay_value = _pair_layers(shape) if is_paired else _float_layers(shape)

    def lay_piece(  # noqa: PLR0917 - numba passes by position
        keys: int, values: int, table: int, head: int, start: int, stop: int, panel: int
    ) -> None:
        """Lays the tokens start … stop - 1 out, and some behind them."""
        for token in range(start, stop, ROWS):
            page = int_at(table, token // block) * kv_heads + head
            within, at = token % block, token - start
            key, value = keys + page * key_page, values + page * value_page
            key_to = panel + 4 * at
            value_to = panel + value_panel + size * at * value_dim
            if is_widened:
                to = panel + widened
                widen_keys(key, within, to, key_dim, block, form, size)
                lay_key(to, key_to)
                widen_values(value, within, to, value_dim, block, form, size)
                lay_value(to, value_to, stop - token)
                continue
            lay_key(key + within * number_bytes, key_to)
            own = value + within * number_bytes * value_dim
            lay_value(own, value_to, stop - token)

    return njit(lay_piece)


def _float_layers(shape: PrefillShape) -> tuple[Any, Any]:
    """Returns functions that copy 16 tokens' keys, and values, as float32."""
    key_dim, value_dim = shape.key_dim, shape.value_dim
    size, stride = _source_of(shape)

    def lay_key(source: int, target: int) -> None:
        lay_float_keys(source, target, key_dim, stride, size)

    def lay_value(source: int, target: int, _: int) -> None:
        lay_float_values(source, target, value_dim, size)

    return njit(lay_key), njit(lay_value)


def _pair_layers(shape: PrefillShape) -> tuple[Any, Any]:
    """Returns functions that copy 16 tokens' keys, and values, in pairs."""
    key_dim, value_dim = shape.key_dim, shape.value_dim
    _, stride = _source_of(shape)

    def lay_key(source: int, target: int) -> None:
        lay_pair_keys(source, target, key_dim, stride)

    def lay_value(source: int, target: int, tokens: int) -> None:
        lay_pair_values(source, target, tokens, value_dim)

    return njit(lay_key), njit(lay_value)


def _source_of(shape: PrefillShape) -> tuple[int, int]:
    """Returns the bytes of a number to copy, and numbers from key row to key row."""
    if shape.widened_bytes:
        return shape.panel_size, ROWS
    return bytes_of(shape.cache_format), shape.block_size


def _query_layer(shape: PrefillShape) -> Any:
    group, key_dim, size = shape.group, shape.key_dim, shape.size

    def lay(  # noqa: PLR0917 - numba passes by position
        source: int, by_token: int, by_head: int, first: int, rows: int, target: int
    ) -> None:
        lay_float_queries(
            source, by_token, by_head, first, rows, target, group, key_dim, size
        )

    return njit(lay)


def _output_writer(shape: PrefillShape) -> Any:
    group, value_dim, size = shape.group, shape.value_dim, shape.size
    token_bytes = size * shape.num_kv_heads * group * value_dim

    def write_output(state: int, output: int, head: int, row: int, rows: int) -> None:
        """16 rows' outputs; the group's heads begin at `head`."""
        sums, own = state + 8 * ROWS, output + head * value_dim * size
        whole = state + 4 * ROWS
        write_float_rows(
            sums, whole, own, token_bytes, row, rows, group, value_dim, size
        )

    return njit(write_output)


def _tile_attender(shape: PrefillShape) -> Any:
    group, key_dim, value_dim = shape.group, shape.key_dim, shape.value_dim
    panel_bytes = shape.panel_bytes
    value_panel = shape.panel_size * PIECE * key_dim
    pairs = int(shape.form is Form.PAIRS)
    share = 1 + pairs
    steps = key_dim // share
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
    ) -> None:
        """16 rows from `row` on see a piece of `stop` tokens.

        A row's token is `shift` tokens behind the piece's first, and as many more as it
        has tokens before it.
        """
        window = given[13]
        lowest = shift + row // group
        highest = shift + (min(row + ROWS, rows) - 1) // group
        start = max(0, lowest + 1 - window) // GRAIN * GRAIN
        seen = min(stop, highest + 1)
        if start >= seen:
            return
        end = (seen + GRAIN - 1) // GRAIN * GRAIN
        scores = panel + panel_bytes
        weights = scores + weights_at
        score_vectors(queries, panel, start, end, scores, steps, pairs)
        hide_scores(scores, seen, end)
        unseen = max(start, min(seen, highest + 1 - window))
        mask_scores(scores, start, unseen, row, shift, window, group)
        future = max(unseen, min(seen, lowest + 1))
        mask_scores(scores, future, seen, row, shift, window, group)
        factor = to_float(given[14])
        soften_scores(
            scores, start, end, weights, state, factor, value_dim, pairs, _SOFTENED
        )
        sums, values = state + 8 * ROWS, panel + value_panel
        last = (seen + share - 1) // share
        weigh_vectors(weights, values, start // share, last, sums, value_dim, pairs)

    return njit(attend_tile)
