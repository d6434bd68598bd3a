"""Lays out keys, values and queries for the tiles of prefill attention.

A tile's row is 64 bytes. Keys and values are transposed so that a product's columns,
the lanes of a vector, are queries: softmax works on 16 queries at a time, and nothing
is summed across a vector. All addresses are integers; numbers that shape the code are
literals.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import DEPTH, ROWS
from hookline_kernels.cpu.vectors import (
    INT16,
    INT32,
    INT64,
    Emit,
    constant,
    load,
    offset,
    rounded,
    store,
    vector,
)

TILE_BYTES = ROWS * DEPTH * 2
_HALF = ROWS // 2
_LN_2 = 0.6931471805599453
"""Maximum scores are in powers of 2 here, and of e in decode."""


def _lay_keys(
    _: object, keys: Any, panel: Any, dim: Any, block: Any
) -> tuple[Signature, Emit]:
    """Lays 16 tokens of a head's page, [dim, block], out as [dim ÷ 32, 16, 32]."""
    signature = types.void(keys, panel, dim, block)
    width, tokens = dim.literal_value, block.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        with cgutils.for_range(builder, INT64(width // DEPTH), intp=INT64) as loop:
            first = offset(builder, args[0], loop.index, 2 * tokens * DEPTH)
            pairs = [
                pair_up(
                    builder,
                    load_halves(builder, builder.add(first, INT64(2 * row * tokens))),
                    load_halves(
                        builder, builder.add(first, INT64(2 * (row + 1) * tokens))
                    ),
                )
                for row in range(0, DEPTH, 2)
            ]
            target = offset(builder, args[1], loop.index, TILE_BYTES)
            _store_rows(builder, transposed(builder, pairs), target)
        return context.get_dummy_value()

    return signature, emit


def _lay_values(
    _: object,
    values: Any,
    panel: Any,
    tokens: Any,  # noqa: ARG001 - a whole number whatever it is
    dim: Any,
) -> tuple[Signature, Emit]:
    """Lays 16 tokens of a head's page, [16, dim], out as half of [dim, 32].

    Tokens from `tokens` on become 0: unwritten memory may hold not-a-numbers.
    """
    signature = types.void(values, panel, types.intp, dim)
    width = dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, count = args[:3]
        nothing = constant(0, ROWS, INT16)
        with cgutils.for_range(builder, INT64(width // DEPTH), intp=INT64) as loop:
            first = offset(builder, source, loop.index, 2 * DEPTH)
            pairs = []
            for side in (0, 2 * ROWS):  # 16 numbers of each token, then the next 16
                for token in range(0, ROWS, 2):
                    both = []
                    for each in (token, token + 1):
                        at = builder.add(first, INT64(2 * each * width + side))
                        kept = builder.icmp_signed("<", INT64(each), count)
                        found = load_halves(builder, at)
                        both.append(builder.select(kept, found, nothing))
                    pairs.append(pair_up(builder, *both))
            place = offset(builder, target, loop.index, 2 * TILE_BYTES)
            for row, numbers in enumerate(transposed(builder, pairs)):
                for side in range(2):
                    places = list(range(side * _HALF, (side + 1) * _HALF))
                    mask = ir.Constant(vector(_HALF, INT32), places)
                    half = builder.shuffle_vector(numbers, numbers, mask)
                    at = builder.add(place, INT64(side * TILE_BYTES + 64 * row))
                    pointer = builder.inttoptr(at, half.type.as_pointer())
                    builder.store(half, pointer, align=4)
        return context.get_dummy_value()

    return signature, emit


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
) -> tuple[Signature, Emit]:
    """Lays 16 rows from `first` on out as [dim ÷ 2, 16, 2].

    A row is a query head of a token: the heads of a group, then the next token's. The
    last of all `rows` is repeated.
    """
    integers = [queries, token_bytes, head_bytes, first, rows, panel]
    signature = types.void(*[types.intp for _ in integers], group, dim)
    heads, width = group.literal_value, dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, by_token, by_head, start, count, target = args[:6]
        places = row_places(builder, source, (by_token, by_head), start, count, heads)
        for step in range(width // DEPTH):
            numbers = []
            for place in places:
                at = builder.add(place, INT64(step * 2 * DEPTH))
                kind = vector(ROWS, INT32).as_pointer()
                numbers.append(builder.load(builder.inttoptr(at, kind), align=2))
            at = builder.add(target, INT64(step * TILE_BYTES))
            _store_rows(builder, transposed(builder, numbers), at)
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
) -> tuple[Signature, Emit]:
    """Divides sums, float32 [dim, 16], by their totals into 16 output rows."""
    integers = [sums, totals, output, token_bytes, first, rows]
    signature = types.void(*[types.intp for _ in integers], group, dim)
    heads, width = group.literal_value, dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, whole, target, by_token, start, count = args[:6]
        ones = constant(1.0, ROWS)
        share = builder.fdiv(ones, load(builder, whole, ROWS))
        strides = by_token, INT64(2 * width)
        places = row_places(builder, target, strides, start, count, heads)
        for at in range(0, width, DEPTH):
            pairs = []
            for row in range(at, at + DEPTH, 2):
                halves = []
                for each in (row, row + 1):
                    found = load(builder, offset(builder, source, each, 64), ROWS)
                    halves.append(rounded(builder, builder.fmul(found, share)))
                pairs.append(pair_up(builder, *halves))
            # backwards: the true row overwrites its repetitions
            turned = list(zip(places, transposed(builder, pairs), strict=True))
            for place, numbers in reversed(turned):
                to = builder.add(place, INT64(2 * at))
                pointer = builder.inttoptr(to, numbers.type.as_pointer())
                builder.store(numbers, pointer, align=2)
        return context.get_dummy_value()

    return signature, emit


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


def row_places(  # noqa: PLR0917 - as the intrinsics have them
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


def load_halves(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Loads 16 numbers of 2 bytes, unconverted."""
    pointer = builder.inttoptr(address, vector(ROWS, INT16).as_pointer())
    return builder.load(pointer, align=2)


def pair_up(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Loads number by number, as 16 of 4 bytes."""
    order = [place for index in range(ROWS) for place in (index, ROWS + index)]
    mask = ir.Constant(vector(2 * ROWS, INT32), order)
    both = builder.shuffle_vector(first, second, mask)
    return builder.bitcast(both, vector(ROWS, INT32))


def transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Transposes a matrix of 16 by 16.

    Interleaving the halves of the rows moves one bit of the row index into the column
    index; after four times rows and columns are exchanged.
    """
    low, high = (
        ir.Constant(
            vector(ROWS, INT32),
            [place for at in range(_HALF) for place in (at + half, at + half + ROWS)],
        )
        for half in (0, _HALF)
    )
    for _ in range(4):
        rows = [
            builder.shuffle_vector(rows[at], rows[at + _HALF], order)
            for at in range(_HALF)
            for order in (low, high)
        ]
    return rows


def _store_rows(builder: ir.IRBuilder, rows: list[ir.Value], address: ir.Value) -> None:
    """Concatenates vectors."""
    for index, row in enumerate(rows):
        at = builder.add(address, INT64(64 * index))
        builder.store(row, builder.inttoptr(at, row.type.as_pointer()), align=4)


lay_keys: Any = intrinsic(prefer_literal=True)(_lay_keys)
lay_values: Any = intrinsic(prefer_literal=True)(_lay_values)
lay_queries: Any = intrinsic(prefer_literal=True)(_lay_queries)
write_rows: Any = intrinsic(prefer_literal=True)(_write_rows)
write_states: Any = intrinsic(prefer_literal=True)(_write_states)
