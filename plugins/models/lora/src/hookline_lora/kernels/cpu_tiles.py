"""Tiles of an adapter's two products, in the registers of CPUs with vectors.

Both take a few rows at a time, wherever they lie, so that no row is copied. The first,
x → A·x, computes dot products of rows as they are in memory: neither x nor A is laid
out anew, and a rank needs no padding. The order of its sums is the same for all tiles,
so that a token's result does not depend on the batch. The second, t → B·t, adds to the
output in registers, and rounds once.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.bfloat_pairs import add_dots, load_words, widened_pairs
from hookline_kernels.cpu.vectors import (
    INT32,
    INT64,
    LANES,
    Emit,
    constant,
    load,
    load_number,
    multiply_add,
    offset,
    part,
    prefetch,
    rounded,
    splat,
    store,
    vector,
)

WIDENED, PAIRS, FLOATS = range(3)
"""How a tile multiplies: bfloat16 in float32, bfloat16 in pairs, float32."""
PANEL = 16
"""Outputs in a panel of B; a vector's numbers, which may be two registers."""
STEP_BYTES = 64
"""Bytes of x and of A that a step of the first product takes."""
_IS_WIDE = LANES == PANEL
ROWS = 4 if _IS_WIDE else 2
"""Most rows of a tile; a power of two."""
ACROSS = 4 if _IS_WIDE else 2
"""Most ranks, or panels, of a tile; a power of two."""
_AHEAD = 4096
"""Prefetch distance in B, in bytes."""

_Vectors = list[ir.Value]


def size_of(form: int) -> int:
    """Returns the bytes of a number of x, A, B and the output."""
    return 4 if form == FLOATS else 2


def sum_size_of(form: int) -> int:
    """Returns the bytes of a number of A·x, which is rounded for products of pairs."""
    return 2 if form == PAIRS else 4


def _row_addresses(
    builder: ir.IRBuilder,
    base: ir.Value,
    row_bytes: ir.Value,
    order: ir.Value,
    rows: int,
) -> _Vectors:
    """Returns the addresses of the rows whose indices are int32s at `order`."""
    found = []
    for row in range(rows):
        at = builder.inttoptr(offset(builder, order, row, 4), INT32.as_pointer())
        index = builder.sext(builder.load(at, align=4), INT64)
        found.append(builder.add(base, builder.mul(index, row_bytes)))
    return found


def _shrink_tile(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    row_bytes: Any,
    order: Any,
    weights: Any,
    weight_bytes: Any,
    steps: Any,
    rest: Any,
    sums: Any,
    sums_bytes: Any,
    rows: Any,
    ranks: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """sums[row, rank] = Σ values[order[row], i] · weights[rank, i].

    `rows` and `ranks` are literals, powers of two. The rows of values, weights and sums
    are `row_bytes`, `weight_bytes` and `sums_bytes` apart. The values of the last step
    are at `rest`, 64 bytes for each row, unless that is 0; they do not count as one of
    the `steps`.
    """
    given = (
        *(values, row_bytes, order, weights, weight_bytes),
        *(steps, rest, sums, sums_bytes),
    )
    signature = types.void(*[types.intp for _ in given], rows, ranks, form)
    high, wide, which = (each.literal_value for each in (rows, ranks, form))

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, apart, indices, factors, pitch = args[:5]
        count, rest, target, between = args[5:9]
        starts = _row_addresses(builder, source, apart, indices, high)
        sides = [
            builder.add(factors, builder.mul(pitch, INT64(rank)))
            for rank in range(wide)
        ]
        zero = constant(0.0, PANEL)
        totals = [
            [cgutils.alloca_once_value(builder, zero) for _ in sides] for _ in starts
        ]
        with cgutils.for_range(builder, count, intp=INT64) as loop:
            _add_step(
                builder,
                [offset(builder, at, loop.index, STEP_BYTES) for at in starts],
                [offset(builder, at, loop.index, STEP_BYTES) for at in sides],
                totals,
                which,
            )
        with builder.if_then(builder.icmp_signed("!=", rest, INT64(0))):
            _add_step(
                builder,
                [offset(builder, rest, row, STEP_BYTES) for row in range(high)],
                [offset(builder, at, count, STEP_BYTES) for at in sides],
                totals,
                which,
            )
        found = [builder.load(place) for line in totals for place in line]
        total = _sums_of(builder, found)
        if which == PAIRS:
            total = rounded(builder, total)
        for row in range(high):
            at = builder.add(target, builder.mul(between, INT64(row)))
            _store_part(builder, part(builder, total, row * wide, wide), at)
        return context.get_dummy_value()

    return signature, emit


def _store_part(builder: ir.IRBuilder, numbers: ir.Value, address: ir.Value) -> None:
    pointer = builder.inttoptr(address, numbers.type.as_pointer())
    builder.store(numbers, pointer, align=2)


def _add_step(
    builder: ir.IRBuilder,
    rows: _Vectors,
    weights: _Vectors,
    totals: list[_Vectors],
    form: int,
) -> None:
    """Adds the products of 64 bytes at each of these addresses."""
    numbers, others = (
        [_operands(builder, at, form) for at in each] for each in (rows, weights)
    )
    for line, number in zip(totals, numbers, strict=True):
        for place, other in zip(line, others, strict=True):
            _add_products(builder, number, other, place)


def _operands(builder: ir.IRBuilder, address: ir.Value, form: int) -> _Vectors:
    """Loads 64 bytes, as vectors that are multiplied with those of the other side."""
    if form == FLOATS:
        return [load(builder, address, PANEL)]
    words = load_words(builder, address, PANEL, 2)
    return [words] if form == PAIRS else widened_pairs(builder, words)


def _add_products(
    builder: ir.IRBuilder, left: _Vectors, right: _Vectors, place: ir.Value
) -> None:
    total = builder.load(place)
    for one, other in zip(left, right, strict=True):
        if one.type == vector(PANEL, INT32):
            total = add_dots(builder, one, other, total)
        else:
            total = multiply_add(builder, one, other, total)
    builder.store(total, place)


def _sums_of(builder: ir.IRBuilder, vectors: _Vectors) -> ir.Value:
    """Sums each of 1, 2, 4, … 16 vectors; returns the sums as one vector.

    A vector's upper half is added to its lower half until one number is left, whatever
    the number of vectors: two vectors' halves are added by one instruction.
    """
    parts = PANEL
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_halved(builder, one, other, parts) for one, other in pairs]
        parts //= 2
    (found,) = vectors
    while parts > 1:
        found = _halved(builder, found, None, parts)
        parts //= 2
    return found


def _halved(
    builder: ir.IRBuilder, one: ir.Value, other: ir.Value | None, parts: int
) -> ir.Value:
    """Halves the parts of each sum of one vector, or of two, which it joins."""
    lanes = one.type.count * (1 if other is None else 2)
    second = one if other is None else other
    lower = [at for at in range(lanes) if at % parts < parts // 2]
    halves = []
    for shift in (0, parts // 2):
        places = ir.Constant(vector(len(lower), INT32), [at + shift for at in lower])
        halves.append(builder.shuffle_vector(one, second, places))
    return builder.fadd(*halves)


def _expand_tile(  # noqa: PLR0917 - numba passes by position
    _: object,
    output: Any,
    row_bytes: Any,
    order: Any,
    apart: Any,
    sums: Any,
    sums_bytes: Any,
    weights: Any,
    rank: Any,
    rows: Any,
    panels: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """output[order[row], o] += Σ sums[row, j] · weights[o, j], for whole panels.

    `rows` and `panels` are literals. Panels' outputs are `apart` bytes apart; the rank
    is even for bfloat16.
    """
    given = (output, row_bytes, order, apart, sums, sums_bytes, weights, rank)
    signature = types.void(*[types.intp for _ in given], rows, panels, form)
    high, wide, which = (each.literal_value for each in (rows, panels, form))
    size, sum_size = size_of(which), sum_size_of(which)
    at_once = 1 if which == FLOATS else 2

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        target, row_size, indices, between, numbers, pitch, factors, depth = args[:8]
        starts = _row_addresses(builder, target, row_size, indices, high)
        places = [
            [
                builder.add(start, builder.mul(between, INT64(index)))
                for index in range(wide)
            ]
            for start in starts
        ]
        totals = [
            [
                cgutils.alloca_once_value(builder, load(builder, at, PANEL, size))
                for at in line
            ]
            for line in places
        ]
        step_bytes = PANEL * size * at_once
        turns = builder.udiv(depth, INT64(at_once))
        panel = builder.mul(turns, INT64(step_bytes))
        with cgutils.for_range(builder, turns, intp=INT64) as loop:
            line_at = offset(builder, factors, loop.index, step_bytes)
            lines = [
                builder.add(line_at, builder.mul(panel, INT64(index)))
                for index in range(wide)
            ]
            for line in lines:
                prefetch(builder, line, range(_AHEAD, _AHEAD + STEP_BYTES))
            columns = [_operands(builder, line, which) for line in lines]
            number_at = offset(builder, numbers, loop.index, sum_size * at_once)
            for row, line in enumerate(totals):
                own = builder.add(number_at, builder.mul(pitch, INT64(row)))
                own_numbers = _spread(builder, own, which)
                for place, column in zip(line, columns, strict=True):
                    _add_products(builder, own_numbers, column, place)
        for line, ends in zip(totals, places, strict=True):
            for place, at in zip(line, ends, strict=True):
                store(builder, builder.load(place), at, size)
        return context.get_dummy_value()

    return signature, emit


def _spread(builder: ir.IRBuilder, address: ir.Value, form: int) -> _Vectors:
    """Loads a rank, or a pair of ranks, of a row for all outputs."""
    if form == PAIRS:
        pair = builder.load(builder.inttoptr(address, INT32.as_pointer()), align=4)
        return [splat(builder, pair, PANEL)]
    return [
        splat(builder, load_number(builder, offset(builder, address, half, 4)), PANEL)
        for half in range(1 if form == FLOATS else 2)
    ]


shrink_tile: Any = intrinsic(prefer_literal=True)(_shrink_tile)
expand_tile: Any = intrinsic(prefer_literal=True)(_expand_tile)
