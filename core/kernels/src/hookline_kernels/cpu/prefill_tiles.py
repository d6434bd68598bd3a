"""The inner loops of prefill attention on tiles: 16 queries over a piece of tokens.

Scores have a token per row and a query per column, so that a vector holds the maximum
or the sum of 16 queries. All addresses are integers; numbers that shape the code are
literals.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import (
    DEPTH,
    ROWS,
    clear_tile,
    load_tile,
    multiply_tiles,
    store_tile,
)
from hookline_kernels.cpu.prefill_panels import TILE_BYTES
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
    power_of_2,
    splat,
    store,
    vector,
)

_LOWEST = -1e20
"""Initial maximum score, in powers of 2."""
UNSEEN = -1e35
"""A score far below that at any scale; finite, so that differences are numbers."""

_SCORE_BYTES = ROWS * 4
"""Bytes of a token's scores: 16 queries."""
_TOTALS = 4
"""Vectors of sums at a time, to hide the latency of an addition."""


def _score_tiles(  # noqa: PLR0917 - numba passes by position
    _: object, queries: Any, keys: Any, start: Any, end: Any, scores: Any, dim: Any
) -> tuple[Signature, Emit]:
    """scores[t, q] = Σ keys[t, d] · queries[d, q], t from `start` to `end` - 1.

    Both are multiples of 32. queries: from `lay_queries`. keys: from `lay_keys`, 16
    tokens after the other.
    """
    given = (queries, keys, start, end, scores)
    signature = types.void(*[types.intp for _ in given], dim)
    steps = dim.literal_value // DEPTH

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, first, last, target = args[:5]
        own = range(4, 4 + min(steps, 4))
        are_kept = steps <= len(own)
        if are_kept:
            for step in range(steps):
                at = builder.add(source, INT64(step * TILE_BYTES))
                load_tile(builder, own[step], at, 64)
        half_bytes = steps * TILE_BYTES
        with _by(builder, first, last, DEPTH) as index:
            here = offset(builder, panel, index, half_bytes // ROWS)
            for half in range(2):
                clear_tile(builder, half)
            for step in range(steps):
                other = own[step] if are_kept else own[0]
                if not are_kept:
                    at = builder.add(source, INT64(step * TILE_BYTES))
                    load_tile(builder, other, at, 64)
                for half in range(2):
                    at = INT64(half * half_bytes + step * TILE_BYTES)
                    load_tile(builder, 2 + half, builder.add(here, at), 64)
                    multiply_tiles(builder, half, 2 + half, other)
            for half in range(2):
                at = offset(builder, target, index, _SCORE_BYTES)
                at = builder.add(at, INT64(half * ROWS * _SCORE_BYTES))
                store_tile(builder, half, at, 64)
        return context.get_dummy_value()

    return signature, emit


def _mask_scores(  # noqa: PLR0917 - numba passes by position
    _: object,
    scores: Any,
    start: Any,
    end: Any,
    row: Any,
    shift: Any,
    window: Any,
    group: Any,
) -> tuple[Signature, Emit]:
    """Masks tokens `start` … `end` - 1 that a query does not attend to.

    Query q belongs to token (row + q) ÷ group; it attends up to that plus `shift`, as
    far back as the window.
    """
    given = (scores, start, end, row, shift, window)
    signature = types.void(*[types.intp for _ in given], group)
    heads = group.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, first, last, query, before, width = args[:6]
        lanes = ir.Constant(vector(ROWS, INT64), list(range(ROWS)))
        own = builder.add(splat(builder, query, ROWS), lanes)
        own = builder.udiv(own, constant(heads, ROWS, INT64))
        highest = builder.add(own, splat(builder, before, ROWS))
        lowest = builder.sub(highest, splat(builder, width, ROWS))
        with _by(builder, first, last, 1) as index:
            token = splat(builder, index, ROWS)
            at = offset(builder, source, index, _SCORE_BYTES)
            seen = builder.and_(
                builder.icmp_signed("<=", token, highest),
                builder.icmp_signed(">", token, lowest),
            )
            nothing = constant(UNSEEN, ROWS)
            store(builder, builder.select(seen, load(builder, at, ROWS), nothing), at)
        return context.get_dummy_value()

    return signature, emit


def _soften_scores(  # noqa: PLR0917 - numba passes by position
    _: object,
    scores: Any,
    start: Any,
    end: Any,
    weights: Any,
    state: Any,
    factor: Any,  # noqa: ARG001 - float32 whatever it is
    dim: Any,
    pairs: Any,
    step: Any,
) -> tuple[Signature, Emit]:
    """Turns scores of tokens `start` … `end` - 1 into weights; updates the state.

    weights: 2^(score · factor - maximum), bfloat16 [tokens ÷ 2, 16, 2] with `pairs` 1,
    float32 [tokens, 16] with 0; these may take the scores' place. state: float32
    maximum times `factor`; sums of weights; sums of values, [dim, 16]. A new maximum
    rescales both sums. `start` and `end` are multiples of `step`.
    """
    given = (scores, start, end, weights, state)
    signature = types.void(
        *[types.intp for _ in given], types.float32, dim, pairs, step
    )
    width, is_paired = dim.literal_value, bool(pairs.literal_value)
    pace = step.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, first, last, target, kept, scale = args[:6]
        scale = splat(builder, scale, ROWS)
        old = load(builder, kept, ROWS)
        top = _largest(builder, (source, first, last), pace)
        top = larger(builder, builder.fmul(top, scale), old)
        whole = builder.add(kept, INT64(_SCORE_BYTES))
        grown = builder.fcmp_ordered(">", top, old)
        bits = builder.bitcast(grown, INT16)
        with builder.if_then(builder.icmp_unsigned("!=", bits, INT16(0))):
            drop = builder.fsub(old, top)
            fade = power_of_2(builder, drop, is_exact=not is_paired)
            store(builder, top, kept)
            with _by(builder, INT64(0), INT64(1 + width), 1) as index:
                at = offset(builder, whole, index, _SCORE_BYTES)
                store(builder, builder.fmul(load(builder, at, ROWS), fade), at)
        weigh = _weigh_pairs if is_paired else _weigh
        given = (source, first, last)
        total = weigh(builder, given, target, scale, builder.fneg(top), pace)
        store(builder, builder.fadd(load(builder, whole, ROWS), total), whole)
        return context.get_dummy_value()

    return signature, emit


def _largest(
    builder: ir.IRBuilder, scores: tuple[ir.Value, ir.Value, ir.Value], pace: int
) -> ir.Value:
    """Returns each query's maximum score."""
    source, first, last = scores
    tops = _places(builder, UNSEEN)
    with _by(builder, first, last, pace) as index:
        for row in range(pace):
            at = builder.add(index, INT64(row))
            numbers = load(builder, offset(builder, source, at, _SCORE_BYTES), ROWS)
            top = tops[row % _TOTALS]
            builder.store(larger(builder, numbers, builder.load(top)), top)
    return _joined(builder, tops, larger)


def _weigh_pairs(  # noqa: PLR0917 - as the intrinsic has them
    builder: ir.IRBuilder,
    scores: tuple[ir.Value, ir.Value, ir.Value],
    target: ir.Value,
    scale: ir.Value,
    shift: ir.Value,
    pace: int,
) -> ir.Value:
    """Writes the weights 2^(score · scale + shift) in pairs; returns their sums."""
    source, first, last = scores
    totals = _places(builder, 0.0)
    with _by(builder, first, last, pace) as index:
        for row in range(0, pace, 2):
            found = []
            for side in range(2):
                at = builder.add(index, INT64(row + side))
                place = offset(builder, source, at, _SCORE_BYTES)
                power = _power(builder, place, scale, shift)
                found.append(power_of_2(builder, power))
                _add(builder, totals[(row + side) % _TOTALS], found[-1])
            at = builder.add(index, INT64(row))
            place = offset(builder, target, at, _SCORE_BYTES // 2)
            both = _rounded_pair(builder, *found)
            pointer = builder.inttoptr(place, both.type.as_pointer())
            builder.store(both, pointer, align=4)
    return _joined(builder, totals, added)


def _weigh(  # noqa: PLR0917 - as the intrinsic has them
    builder: ir.IRBuilder,
    scores: tuple[ir.Value, ir.Value, ir.Value],
    target: ir.Value,
    scale: ir.Value,
    shift: ir.Value,
    pace: int,
) -> ir.Value:
    """Writes the weights 2^(score · scale + shift); returns their sums."""
    source, first, last = scores
    totals = _places(builder, 0.0)
    with _by(builder, first, last, pace) as index:
        for row in range(pace):
            at = builder.add(index, INT64(row))
            place = offset(builder, source, at, _SCORE_BYTES)
            power = _power(builder, place, scale, shift)
            found = power_of_2(builder, power, is_exact=True)
            _add(builder, totals[row % _TOTALS], found)
            store(builder, found, offset(builder, target, at, _SCORE_BYTES))
    return _joined(builder, totals, added)


def _power(
    builder: ir.IRBuilder, place: ir.Value, scale: ir.Value, shift: ir.Value
) -> ir.Value:
    return multiply_add(builder, load(builder, place, ROWS), scale, shift)


def _add(builder: ir.IRBuilder, total: ir.Value, numbers: ir.Value) -> None:
    builder.store(builder.fadd(builder.load(total), numbers), total)


def _places(builder: ir.IRBuilder, value: float) -> list[ir.Value]:
    """Allocates vectors of sums, which LLVM keeps in registers."""
    places = [cgutils.alloca_once(builder, vector(ROWS)) for _ in range(_TOTALS)]
    for place in places:
        builder.store(constant(value, ROWS), place)
    return places


def _joined(
    builder: ir.IRBuilder,
    places: list[ir.Value],
    combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value],
) -> ir.Value:
    found = builder.load(places[0])
    for place in places[1:]:
        found = combine(builder, found, builder.load(place))
    return found


def _rounded_pair(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Packs two vectors as bfloat16 pairs, rounded to nearest; none is negative."""
    kind, half = vector(ROWS, INT32), constant(0x8000, ROWS, INT32)
    low, high = (
        builder.add(builder.bitcast(side, kind), half) for side in (first, second)
    )
    low = builder.lshr(low, constant(16, ROWS, INT32))
    high = builder.and_(high, constant(0xFFFF0000, ROWS, INT32))
    return builder.or_(low, high)


def _weigh_tiles(  # noqa: PLR0917 - numba passes by position
    _: object, weights: Any, values: Any, start: Any, end: Any, sums: Any, dim: Any
) -> tuple[Signature, Emit]:
    """sums[d, q] += Σ values[d, t] · weights[t, q], t from `start` to `end` - 1.

    Both are multiples of 32. values: from `lay_values`, 32 tokens after the other.
    weights: from `soften_scores`.
    """
    given = (weights, values, start, end, sums)
    signature = types.void(*[types.intp for _ in given], dim)
    width = dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, first, last, target = args[:5]
        parts = list(range(width // ROWS))
        for at in range(0, len(parts), 4):
            group = parts[at : at + 4]
            places = [
                builder.add(target, INT64(part * ROWS * _SCORE_BYTES)) for part in group
            ]
            for index, place in enumerate(places):
                load_tile(builder, index, place, 64)
            with _by(builder, first, last, DEPTH) as index:
                load_tile(builder, 4, offset(builder, source, index, 32), 64)
                here = offset(builder, panel, index, 2 * width)
                for which, part in enumerate(group):
                    other = 5 + which % 3
                    tile = builder.add(here, INT64(part * TILE_BYTES))
                    load_tile(builder, other, tile, 64)
                    multiply_tiles(builder, which, other, 4)
            for index, place in enumerate(places):
                store_tile(builder, index, place, 64)
        return context.get_dummy_value()

    return signature, emit


def _clear_state(_: object, state: Any, dim: Any) -> tuple[Signature, Emit]:
    """Initialises a state."""
    signature = types.void(state, dim)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        store(builder, constant(_LOWEST, ROWS), args[0])
        with _by(builder, INT64(1), INT64(2 + dim.literal_value), 1) as index:
            at = offset(builder, args[0], index, _SCORE_BYTES)
            store(builder, constant(0.0, ROWS), at)
        return context.get_dummy_value()

    return signature, emit


@contextmanager
def _by(
    builder: ir.IRBuilder, start: ir.Value, end: ir.Value, step: int
) -> Iterator[ir.Value]:
    """Loops over `start`, `start` + step … below `end`."""
    with cgutils.for_range_slice(builder, start, end, INT64(step)) as (index, _):
        yield index


score_tiles: Any = intrinsic(prefer_literal=True)(_score_tiles)
mask_scores: Any = intrinsic(prefer_literal=True)(_mask_scores)
soften_scores: Any = intrinsic(prefer_literal=True)(_soften_scores)
weigh_tiles: Any = intrinsic(prefer_literal=True)(_weigh_tiles)
clear_state: Any = intrinsic(prefer_literal=True)(_clear_state)
