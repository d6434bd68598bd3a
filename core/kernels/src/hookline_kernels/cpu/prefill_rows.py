"""Loads rows of queries for the tiles of prefill attention, and stores their results.

A tile is 16 rows. A row is a query head of a token: the heads of a group, then the next
token's. The tile's columns, the lanes of a vector, are rows, so that nothing is summed
across a vector. The last of all rows is repeated to fill a tile up.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.bfloat_pairs import interleaved, load_words, store_words
from hookline_kernels.cpu.transposing import TILE_BYTES, store_rows, transposed
from hookline_kernels.cpu.vectors import (
    INT32,
    INT64,
    Emit,
    constant,
    load,
    offset,
    part,
    rounded,
    store,
)

_LN_2 = 0.6931471805599453
"""Maximum scores are in powers of 2 here, and of e in decode."""


def _lay_queries(  # noqa: PLR0917 - numba passes by position
    _: object,
    queries: Any,
    token_bytes: Any,
    head_bytes: Any,
    first: Any,
    rows: Any,
    panel: Any,
    group: Any,
    dim: Any,
    size: Any,
    panel_size: Any,
) -> tuple[Signature, Emit]:
    """Lays 16 rows from `first` on out as words, [words, 16].

    Numbers have `size` bytes, and `panel_size` in the panel: 4 for float32, 2 for
    bfloat16, in pairs.
    """
    integers = [queries, token_bytes, head_bytes, first, rows, panel]
    literals = (group, dim, size, panel_size)
    signature = types.void(*[types.intp for _ in integers], *literals)
    heads, width, element, number = (each.literal_value for each in literals)
    step = 4 * ROWS // number  # numbers in 16 words

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, by_token, by_head, start, count, target = args[:6]
        places = _row_places(builder, source, (by_token, by_head), start, count, heads)
        with cgutils.for_range(builder, INT64(width // step), intp=INT64) as loop:
            at = builder.mul(loop.index, INT64(step * element))
            words = []
            for place in places:
                own = builder.add(place, at)
                if element == number:
                    words.append(load_words(builder, own, ROWS, element))
                else:
                    words.append(load(builder, own, ROWS, element))
            to = offset(builder, target, loop.index, TILE_BYTES)
            store_rows(builder, transposed(builder, words), to)
        return context.get_dummy_value()

    return signature, emit


def _write_rows(  # noqa: PLR0917 - numba passes by position
    _: object,
    sums: Any,
    totals: Any,
    output: Any,
    token_bytes: Any,
    first: Any,
    rows: Any,
    group: Any,
    dim: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Divides sums, float32 [dim, 16], by their totals into 16 output rows.

    Numbers of the output have `size` bytes: 4 for float32, 2 for bfloat16.
    """
    integers = [sums, totals, output, token_bytes, first, rows]
    literals = (group, dim, size)
    signature = types.void(*[types.intp for _ in integers], *literals)
    heads, width, element = (each.literal_value for each in literals)
    step = 4 * ROWS // element  # numbers in 16 words

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, whole, target, by_token, start, count = args[:6]
        share = builder.fdiv(constant(1.0, ROWS), load(builder, whole, ROWS))
        strides = by_token, INT64(element * width)
        places = _row_places(builder, target, strides, start, count, heads)
        with cgutils.for_range(builder, INT64(width // step), intp=INT64) as loop:
            at = builder.mul(loop.index, INT64(step))
            _write_words(builder, source, at, share, places, (ROWS, element))
        if rest := width % step * element // 4:
            at = INT64(width // step * step)
            _write_words(builder, source, at, share, places, (rest, element))
        return context.get_dummy_value()

    return signature, emit


def _write_words(  # noqa: PLR0917 - a step of a loop
    builder: ir.IRBuilder,
    sums: ir.Value,
    first: ir.Value,
    share: ir.Value,
    places: list[ir.Value],
    shape: tuple[int, int],
) -> None:
    """Writes up to 16 words of each row, from number `first` on.

    The shape is the number of words, and the bytes of a number.
    """
    words, size = shape
    sums = offset(builder, sums, first, 4 * ROWS)
    numbers = [
        builder.fmul(load(builder, offset(builder, sums, at, 4 * ROWS), ROWS), share)
        for at in range(words * 4 // size)
    ]
    if size == 2:
        halves = [rounded(builder, each) for each in numbers]
        pairs = zip(halves[::2], halves[1::2], strict=True)
        numbers = [interleaved(builder, *pair) for pair in pairs]
    numbers += numbers[:1] * (ROWS - words)
    turned = zip(places, transposed(builder, numbers), strict=True)
    # backwards: the true row overwrites its repetitions
    for place, found in reversed(list(turned)):
        to = offset(builder, place, first, size)
        store_words(builder, part(builder, found, 0, words), to, size)


def _write_states(  # noqa: PLR0917 - numba passes by position
    _: object,
    state: Any,
    output: Any,
    token_bytes: Any,
    head: Any,
    first: Any,
    rows: Any,
    heads: Any,
    group: Any,
    dim: Any,
) -> tuple[Signature, Emit]:
    """Stores a tile's state as 16 rows' states, in decode's layout.

    For each token: `heads` maximum scores, as many sums of weights, and as many rows of
    sums of values; the group's heads begin at `head`.
    """
    integers = [state, output, token_bytes, head, first, rows]
    signature = types.void(*[types.intp for _ in integers], heads, group, dim)
    total, members = heads.literal_value, group.literal_value
    width = dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, by_token, own, start, count = args[:6]
        tops = builder.fmul(load(builder, source, ROWS), constant(_LN_2, ROWS))
        sums = load(builder, builder.add(source, INT64(64)), ROWS)
        places = []
        for lane in range(ROWS):
            row = _least(builder, start, lane, count)
            token = builder.mul(builder.udiv(row, INT64(members)), by_token)
            token = builder.add(target, token)
            each = builder.add(own, builder.urem(row, INT64(members)))
            for index, numbers in enumerate((tops, sums)):
                at = builder.add(each, INT64(index * total))
                number = builder.extract_element(numbers, INT32(lane))
                place = offset(builder, token, at, 4)
                pointer = builder.inttoptr(place, number.type.as_pointer())
                builder.store(number, pointer, align=4)
            values = offset(builder, token, each, 4 * width)
            places.append(builder.add(values, INT64(8 * total)))
        with cgutils.for_range(builder, INT64(width // ROWS), intp=INT64) as loop:
            own = offset(builder, source, loop.index, 64 * ROWS)
            found = [
                load(builder, builder.add(own, INT64(64 * (2 + row))), ROWS)
                for row in range(ROWS)
            ]
            for place, numbers in zip(places, transposed(builder, found), strict=True):
                store(builder, numbers, offset(builder, place, loop.index, 4 * ROWS))
        return context.get_dummy_value()

    return signature, emit


def _row_places(  # noqa: PLR0917 - as the intrinsics have them
    builder: ir.IRBuilder,
    base: ir.Value,
    strides: tuple[ir.Value, ir.Value],
    start: ir.Value,
    count: ir.Value,
    heads: int,
) -> list[ir.Value]:
    """Returns offsets of 16 rows from `start` on; the last of all is repeated.

    The strides are from token to token and from head to head.
    """
    by_token, by_head = strides
    places = []
    for lane in range(ROWS):
        row = _least(builder, start, lane, count)
        token = builder.mul(builder.udiv(row, INT64(heads)), by_token)
        head = builder.mul(builder.urem(row, INT64(heads)), by_head)
        places.append(builder.add(base, builder.add(token, head)))
    return places


def _least(
    builder: ir.IRBuilder, start: ir.Value, lane: int, count: ir.Value
) -> ir.Value:
    """Returns the lane's row, or the last one."""
    row = builder.add(start, INT64(lane))
    last = builder.sub(count, INT64(1))
    return builder.select(builder.icmp_signed("<", row, last), row, last)


lay_queries: Any = intrinsic(prefer_literal=True)(_lay_queries)
write_rows: Any = intrinsic(prefer_literal=True)(_write_rows)
write_states: Any = intrinsic(prefer_literal=True)(_write_states)
