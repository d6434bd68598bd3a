"""The inner loops of attention of many new tokens, on tiles of the matrix unit.

Keys and values of a piece of a sequence are first laid out as the unit wants them, and
then serve all queries that share their head. All addresses are integers; numbers that
shape the code are literals.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    DEPTH,
    INT8,
    ROWS,
    begin,
    clear_tile,
    end,
    load_tile,
    multiply_tiles,
    store_tile,
)
from hookline_kernels.cpu.vectors import (
    INT16,
    INT32,
    INT64,
    Emit,
    added,
    constant,
    larger,
    load,
    multiply_add,
    offset,
    reduce,
    splat,
    store,
    vector,
)

LOG2_E = 1.4426950408889634
_POWER_OF_2 = (0.009618129, 0.05550411, 0.24022651, 0.6931472, 1.0)
"""Of the series of 2^x; for |x| ≤ ½ right to 4e-5, where bfloat16 is to 4e-3."""
_LEAST_POWER = -126.0


def _lay_keys(
    _: object, keys: Any, panel: Any, dim: Any, block: Any
) -> tuple[Signature, Emit]:
    """16 tokens of a head's page, [dim, block], as [dim ÷ 2, 16, 2]."""
    signature = types.void(keys, panel, dim, block)
    width, tokens = dim.literal_value, block.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        with cgutils.for_range(builder, INT64(width // 2), intp=INT64) as loop:
            first = offset(builder, args[0], loop.index, 4 * tokens)
            second = builder.add(first, INT64(2 * tokens))
            target = offset(builder, args[1], loop.index, 64)
            _interleave(builder, first, second, target)
        return context.get_dummy_value()

    return signature, emit


def _lay_values(
    _: object,
    values: Any,
    panel: Any,
    tokens: Any,  # noqa: ARG001 - a whole number whatever it is
    dim: Any,
) -> tuple[Signature, Emit]:
    """16 tokens of a head's page, [16, dim], as [8, dim, 2].

    Those from `tokens` on become 0: no weight makes a number of what is none.
    """
    signature = types.void(values, panel, types.intp, dim)
    width = dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, count = args[:3]
        for pair in range(ROWS // 2):
            is_first = builder.icmp_signed("<", INT64(2 * pair), count)
            is_second = builder.icmp_signed("<", INT64(2 * pair + 1), count)
            for at in range(0, width, ROWS):
                first = offset(builder, source, 2 * pair * width + at, 2)
                second = builder.add(first, INT64(2 * width))
                place = offset(builder, target, pair * width + at, 4)
                _interleave(builder, first, second, place, (is_first, is_second))
        return context.get_dummy_value()

    return signature, emit


def _interleave(
    builder: ir.IRBuilder,
    first: ir.Value,
    second: ir.Value,
    target: ir.Value,
    kept: tuple[ir.Value, ir.Value] | None = None,
) -> None:
    """Number by number, 16 of each; 0 for a side that is not kept."""
    kind = vector(ROWS, INT16)
    sides = [
        builder.load(builder.inttoptr(side, kind.as_pointer()), align=2)
        for side in (first, second)
    ]
    if kept is not None:
        nothing = constant(0, ROWS, INT16)
        sides = [
            builder.select(keep, side, nothing)
            for keep, side in zip(kept, sides, strict=True)
        ]
    order = [place for index in range(ROWS) for place in (index, ROWS + index)]
    mask = ir.Constant(vector(2 * ROWS, INT32), order)
    both = builder.shuffle_vector(*sides, mask)
    pointer = builder.inttoptr(target, both.type.as_pointer())
    builder.store(both, pointer, align=2)


def _score_tiles(  # noqa: PLR0917 - numba passes by position
    _: object,
    query: Any,
    query_bytes: Any,
    rows: Any,
    panel: Any,
    columns: Any,
    scores: Any,
    row_bytes: Any,
    dim: Any,
) -> tuple[Signature, Emit]:
    """scores[r, t] = Σ query[r, d] · keys[d, t], for a multiple of 32 tokens t.

    query: bfloat16, `query_bytes` from row to row. panel: of `lay_keys`, 16 tokens
    after others. scores: float32, `row_bytes` from row to row.
    """
    given = (query, query_bytes, rows, panel, columns, scores)
    signature = types.void(*[types.intp for _ in given], row_bytes, dim)
    pitch, width = row_bytes.literal_value, dim.literal_value
    steps = width // DEPTH

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, stride, count, keys, tokens, target = args[:6]
        height = builder.trunc(count, INT8)
        own = range(4, 4 + min(steps, 4))
        heights = {0: height, 1: height, 2: INT8(ROWS), 3: INT8(ROWS)}
        before = begin(builder, heights | dict.fromkeys(own, height))
        are_kept = steps <= len(own)
        if are_kept:
            for step in range(steps):
                at = builder.add(source, INT64(64 * step))
                load_tile(builder, own[step], at, stride)
        loops = builder.udiv(tokens, INT64(2 * ROWS))
        with cgutils.for_range(builder, loops, intp=INT64) as loop:
            for half in range(2):
                clear_tile(builder, half)
            tile_bytes = width * ROWS * 2
            here = offset(builder, keys, loop.index, 2 * tile_bytes)
            for step in range(steps):
                rows_of = own[step] if are_kept else own[0]
                if not are_kept:
                    at = builder.add(source, INT64(64 * step))
                    load_tile(builder, rows_of, at, stride)
                for half in range(2):
                    at = builder.add(here, INT64(half * tile_bytes + step * 1024))
                    load_tile(builder, 2 + half, at, 64)
                    multiply_tiles(builder, half, rows_of, 2 + half)
            for half in range(2):
                at = offset(builder, target, loop.index, 128)
                store_tile(builder, half, builder.add(at, INT64(64 * half)), pitch)
        end(builder, before)
        return context.get_dummy_value()

    return signature, emit


def _weigh_tiles(  # noqa: PLR0917 - numba passes by position
    _: object,
    weights: Any,
    rows: Any,
    panel: Any,
    columns: Any,
    sums: Any,
    row_bytes: Any,
    dim: Any,
) -> tuple[Signature, Emit]:
    """sums[r, d] += Σ weights[r, t] · values[t, d], for a multiple of 32 tokens t.

    weights: bfloat16, `row_bytes` from row to row. panel: of `lay_values`, 16 tokens
    after others. sums: float32 [rows, dim].
    """
    given = (weights, rows, panel, columns, sums)
    signature = types.void(*[types.intp for _ in given], row_bytes, dim)
    pitch, width = row_bytes.literal_value, dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, count, values, tokens, target = args[:5]
        height = builder.trunc(count, INT8)
        heights = dict.fromkeys((0, 1, 2, 3, 4), height)
        before = begin(builder, heights | dict.fromkeys((6, 7), INT8(ROWS)))
        loops = builder.udiv(tokens, INT64(DEPTH))
        places = list(range(0, width, ROWS))
        for start in range(0, len(places), 4):
            group = places[start : start + 4]
            for index, at in enumerate(group):
                load_tile(builder, index, builder.add(target, INT64(4 * at)), 4 * width)
            with cgutils.for_range(builder, loops, intp=INT64) as loop:
                load_tile(builder, 4, offset(builder, source, loop.index, 64), pitch)
                here = offset(builder, values, loop.index, DEPTH * width * 2)
                for index, at in enumerate(group):
                    other = 6 + index % 2
                    place = builder.add(here, INT64(4 * at))
                    load_tile(builder, other, place, 4 * width)
                    multiply_tiles(builder, index, 4, other)
            for index, at in enumerate(group):
                place = builder.add(target, INT64(4 * at))
                store_tile(builder, index, place, 4 * width)
        end(builder, before)
        return context.get_dummy_value()

    return signature, emit


def _weigh_row(
    _: object,
    scores: Any,
    weights: Any,
    columns: Any,
    factor: Any,  # noqa: ARG001 - float32 whatever it is
    top: Any,  # noqa: ARG001 - likewise
) -> tuple[Signature, Emit]:
    """weights[t] = 2^(scores[t] · factor − top), in bfloat16; returns their sum.

    No power is above 1. `columns` is a multiple of 16.
    """
    signature = types.float32(scores, weights, columns, types.float32, types.float32)

    def emit(
        _: Any, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, count, scale, highest = args
        scale = splat(builder, scale, ROWS)
        highest = splat(builder, builder.fneg(highest), ROWS)
        total = cgutils.alloca_once_value(builder, constant(0.0, ROWS))
        loops = builder.udiv(count, INT64(ROWS))
        with cgutils.for_range(builder, loops, intp=INT64) as loop:
            numbers = load(builder, offset(builder, source, loop.index, 64), ROWS)
            power = multiply_add(builder, numbers, scale, highest)
            powers = _power_of_2(builder, power)
            store(builder, powers, offset(builder, target, loop.index, 32), 2)
            builder.store(added(builder, builder.load(total), powers), total)
        return reduce(builder, builder.load(total), added)

    return signature, emit


def _power_of_2(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """Of numbers not above 0; at least float32's smallest, which adds nothing."""

    def number(value: float) -> ir.Constant:
        return constant(value, ROWS)

    numbers = larger(builder, numbers, number(_LEAST_POWER))
    rounding = number(1.5 * 2**23)  # what is added to it loses its fraction
    whole = builder.fsub(builder.fadd(numbers, rounding), rounding)
    rest = builder.fsub(numbers, whole)
    series = number(_POWER_OF_2[0])
    for coefficient in _POWER_OF_2[1:]:
        series = multiply_add(builder, series, rest, number(coefficient))
    exponent = builder.fptosi(whole, vector(ROWS, INT32))
    exponent = builder.shl(exponent, constant(23, ROWS, INT32))
    bits = builder.add(builder.bitcast(series, exponent.type), exponent)
    return builder.bitcast(bits, vector(ROWS))


lay_keys: Any = intrinsic(prefer_literal=True)(_lay_keys)
lay_values: Any = intrinsic(prefer_literal=True)(_lay_values)
score_tiles: Any = intrinsic(prefer_literal=True)(_score_tiles)
weigh_tiles: Any = intrinsic(prefer_literal=True)(_weigh_tiles)
weigh_row: Any = intrinsic(_weigh_row)
