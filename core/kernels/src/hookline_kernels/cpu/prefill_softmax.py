"""The online softmax of prefill attention: 16 queries over a piece of tokens.

Scores have a token per row and a query per column, so that a vector holds the maximum
or the sum of 16 queries, and nothing is summed across a vector (Milakov and Gimelshein
2018; Dao et al. 2022, FlashAttention). All addresses are integers; numbers that shape
the code are literals.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.bfloat_pairs import rounded_pairs, store_words
from hookline_kernels.cpu.vectors import (
    INT16,
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
SCORE_BYTES = ROWS * 4
"""Bytes of a token's scores, or of a row of sums: 16 queries."""
_TOTALS = 4
"""Vectors of sums at a time, to hide the latency of an addition."""


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
        with counting(builder, first, last, 1) as index:
            token = splat(builder, index, ROWS)
            at = offset(builder, source, index, SCORE_BYTES)
            seen = builder.and_(
                builder.icmp_signed("<=", token, highest),
                builder.icmp_signed(">", token, lowest),
            )
            nothing = constant(UNSEEN, ROWS)
            store(builder, builder.select(seen, load(builder, at, ROWS), nothing), at)
        return context.get_dummy_value()

    return signature, emit


def _hide_scores(
    _: object, scores: Any, start: Any, end: Any
) -> tuple[Signature, Emit]:
    """Masks tokens `start` … `end` - 1 for all 16 queries."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        with counting(builder, args[1], args[2], 1) as index:
            at = offset(builder, args[0], index, SCORE_BYTES)
            store(builder, constant(UNSEEN, ROWS), at)
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in (scores, start, end)]), emit


def _update_softmax(  # noqa: PLR0917 - numba passes by position
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
        whole = builder.add(kept, INT64(SCORE_BYTES))
        grown = builder.fcmp_ordered(">", top, old)
        bits = builder.bitcast(grown, INT16)
        with builder.if_then(builder.icmp_unsigned("!=", bits, INT16(0))):
            drop = builder.fsub(old, top)
            fade = power_of_2(builder, drop, is_exact=not is_paired)
            store(builder, top, kept)
            with counting(builder, INT64(0), INT64(1 + width), 1) as index:
                at = offset(builder, whole, index, SCORE_BYTES)
                store(builder, builder.fmul(load(builder, at, ROWS), fade), at)
        given, shift = (source, first, last), builder.fneg(top)
        total = _weigh(builder, given, target, scale, shift, pace, is_paired)
        store(builder, builder.fadd(load(builder, whole, ROWS), total), whole)
        return context.get_dummy_value()

    return signature, emit


def _largest(
    builder: ir.IRBuilder, scores: tuple[ir.Value, ir.Value, ir.Value], pace: int
) -> ir.Value:
    """Returns each query's maximum score."""
    source, first, last = scores
    tops = _places(builder, UNSEEN)
    with counting(builder, first, last, pace) as index:
        for row in range(pace):
            at = builder.add(index, INT64(row))
            numbers = load(builder, offset(builder, source, at, SCORE_BYTES), ROWS)
            top = tops[row % _TOTALS]
            builder.store(larger(builder, numbers, builder.load(top)), top)
    return _joined(builder, tops, larger)


def _weigh(  # noqa: PLR0917 - as the intrinsic has them
    builder: ir.IRBuilder,
    scores: tuple[ir.Value, ir.Value, ir.Value],
    target: ir.Value,
    scale: ir.Value,
    shift: ir.Value,
    pace: int,
    is_paired: bool,
) -> ir.Value:
    """Writes the weights 2^(score · scale + shift); returns their sums."""
    source, first, last = scores
    together = 2 if is_paired else 1
    totals = _places(builder, 0.0)
    with counting(builder, first, last, pace) as index:
        for row in range(0, pace, together):
            found = []
            for side in range(together):
                at = builder.add(index, INT64(row + side))
                place = offset(builder, source, at, SCORE_BYTES)
                power = _power(builder, place, scale, shift)
                found.append(power_of_2(builder, power, is_exact=not is_paired))
                _add(builder, totals[(row + side) % _TOTALS], found[-1])
            words = rounded_pairs(builder, *found) if is_paired else found[0]
            at = builder.add(index, INT64(row))
            place = offset(builder, target, at, SCORE_BYTES // together)
            store_words(builder, words, place)
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


def _clear_state(_: object, state: Any, dim: Any) -> tuple[Signature, Emit]:
    """Initialises a state."""
    signature = types.void(state, dim)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        store(builder, constant(_LOWEST, ROWS), args[0])
        with counting(builder, INT64(1), INT64(2 + dim.literal_value), 1) as index:
            at = offset(builder, args[0], index, SCORE_BYTES)
            store(builder, constant(0.0, ROWS), at)
        return context.get_dummy_value()

    return signature, emit


@contextmanager
def counting(
    builder: ir.IRBuilder, start: ir.Value, end: ir.Value, step: int
) -> Iterator[ir.Value]:
    """Loops over `start`, `start` + step … below `end`."""
    with cgutils.for_range_slice(builder, start, end, INT64(step)) as (index, _):
        yield index


mask_scores: Any = intrinsic(prefer_literal=True)(_mask_scores)
hide_scores: Any = intrinsic(_hide_scores)
update_softmax: Any = intrinsic(prefer_literal=True)(_update_softmax)
clear_state: Any = intrinsic(prefer_literal=True)(_clear_state)
