"""The two inner loops of decode attention, as intrinsics for numba.

Each takes one block's keys or values of one KV head, and all query heads that share it,
so that keys and values are read once. Meanwhile it prefetches the next tile, which may
lie anywhere in memory, where the hardware does not foresee it.

Numbers that shape the code are literals in the signature: numba makes one version for
each signature and keeps it under that alone.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.cache_formats import (
    bytes_of,
    load_stored,
    scaled,
    token_factors,
)
from hookline_kernels.cpu.vectors import (
    INT64,
    MOST_SUMS,
    Emit,
    added,
    constant,
    lanes_for,
    load,
    load_number,
    multiply_add,
    offset,
    prefetch,
    slices,
    splat,
    store,
    vector,
)

_MOST_VALUE_SUMS = 3 * MOST_SUMS // 2


def _score_tile(  # noqa: PLR0917 - numba passes by position
    _: object,
    query: Any,
    keys: Any,
    ahead: Any,
    scores: Any,
    stride: Any,
    group: Any,
    dim: Any,
    block: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """scores[h, t] = Σ query[h, d] · keys[d, t], for the heads h and a block's tokens.

    query: float32 [group, dim]. keys: A page, [dim, block] in the format. ahead: the
    next page of keys. scores: float32, `stride` numbers from head to head.
    """
    integers = [types.intp for _ in (query, keys, ahead, scores, stride)]
    signature = types.void(*integers, group, dim, block, form)
    heads, width, tokens = group.literal_value, dim.literal_value, block.literal_value
    stored = form.literal_value
    lanes = lanes_for(tokens)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        queries, tile, coming, output, row = args[:5]
        for first in range(0, tokens, lanes):
            shape = (width, tokens)
            factors = token_factors(builder, tile, first, lanes, shape, stored)
            for some in slices(heads, MOST_SUMS):
                asks = first == 0 and some.start == 0
                scored = _scores_of(
                    builder,
                    offset(builder, queries, some.start * width, 4),
                    offset(builder, tile, first, bytes_of(stored)),
                    coming if asks else None,
                    (len(some), width, tokens, stored, lanes),
                )
                for head, score in zip(some, scored, strict=True):
                    total = scaled(builder, score, factors)
                    at = builder.add(builder.mul(row, INT64(head)), INT64(first))
                    store(builder, total, offset(builder, output, at, 4))
        return context.get_dummy_value()

    return signature, emit


def _scores_of(
    builder: ir.IRBuilder,
    query: ir.Value,
    keys: ir.Value,
    ahead: ir.Value | None,
    shape: tuple[int, int, int, int, int],
) -> list[ir.Value]:
    """Scores one vector of tokens for each head.

    With few heads, each has several partial sums, which keep the adders busy.
    """
    heads, dim, block, form, lanes = shape
    size = bytes_of(form)
    step = 1
    while 2 * step * heads <= MOST_SUMS and dim % (2 * step) == 0:
        step *= 2
    sums = [
        [_sum_from(builder, constant(0.0, lanes)) for _ in range(step)]
        for _ in range(heads)
    ]
    with cgutils.for_range(builder, INT64(dim // step), intp=INT64) as loop:
        start = builder.mul(loop.index, INT64(step))
        if ahead is not None:
            line = offset(builder, ahead, start, block * size)
            prefetch(builder, line, range(step * block * size))
        for part in range(step):
            at = builder.add(start, INT64(part))
            place = offset(builder, keys, at, block * size)
            key = load_stored(builder, place, lanes, form)
            for head in range(heads):
                place = builder.add(at, INT64(head * dim))
                number = load_number(builder, offset(builder, query, place, 4))
                _add_to(builder, sums[head][part], splat(builder, number, lanes), key)
    totals = []
    for parts in sums:
        total = builder.load(parts[0])
        for part in parts[1:]:
            total = added(builder, total, builder.load(part))
        totals.append(total)
    return totals


def _value_tile(  # noqa: PLR0917 - numba passes by position
    _: object,
    weights: Any,
    stride: Any,
    values: Any,
    ahead: Any,
    sums: Any,
    start: Any,
    end: Any,
    group: Any,
    dim: Any,
    block: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """sums[h, d] += Σ weights[h, t] · values[t, d], for t of start … end - 1.

    weights: float32, `stride` numbers from head to head; overwritten. values: A page,
    [block, dim] in the format. ahead: the next page of values. sums: float32.
    """
    integers = [types.intp for _ in (weights, stride, values, ahead, sums, start, end)]
    signature = types.void(*integers, group, dim, block, form)
    heads, width, tokens = group.literal_value, dim.literal_value, block.literal_value
    stored = form.literal_value
    lanes = lanes_for(width)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        _scale_weights(builder, args, (heads, width, tokens, stored))
        for some in slices(heads, MOST_SUMS):
            vectors = max(1, _MOST_VALUE_SUMS // len(some))
            for part in slices(width // lanes, vectors):
                shape = (some, part, width, stored, lanes)
                _add_values(builder, args, shape, asks=some.start == 0)
        return context.get_dummy_value()

    return signature, emit


def _scale_weights(
    builder: ir.IRBuilder, args: list[ir.Value], shape: tuple[int, int, int, int]
) -> None:
    """Multiplies the weights of a block's tokens by the factors of their values."""
    weights, stride, values = args[:3]
    heads, width, tokens, form = shape
    lanes = lanes_for(tokens)
    for first in range(0, tokens, lanes):
        factors = token_factors(builder, values, first, lanes, (width, tokens), form)
        if factors is None:
            return
        for head in range(heads):
            at = builder.add(builder.mul(stride, INT64(head)), INT64(first))
            place = offset(builder, weights, at, 4)
            found = builder.fmul(load(builder, place, lanes), factors)
            store(builder, found, place)


def _add_values(
    builder: ir.IRBuilder,
    args: list[ir.Value],
    shape: tuple[range, range, int, int, int],
    *,
    asks: bool,
) -> None:
    """Adds for some heads and some vectors of the values' width."""
    weights, stride, values, ahead, output, start, end = args[:7]
    heads, part, dim, form, lanes = shape
    size = bytes_of(form)
    places = [
        [offset(builder, output, head * dim + at * lanes, 4) for at in part]
        for head in heads
    ]
    sums = [
        [_sum_from(builder, load(builder, place, lanes)) for place in row]
        for row in places
    ]
    with cgutils.for_range(builder, end, start=start, intp=INT64) as loop:
        token = offset(builder, values, loop.index, dim * size)
        if asks:
            line = offset(builder, ahead, loop.index, dim * size)
            covered = range(part.start * lanes * size, part.stop * lanes * size)
            prefetch(builder, line, covered)
        places_of = [offset(builder, token, at * lanes, size) for at in part]
        numbers = [
            load_stored(builder, place, lanes, form, has_nan=True)
            for place in places_of
        ]
        for head, row in zip(heads, sums, strict=True):
            at = builder.add(loop.index, builder.mul(stride, INT64(head)))
            weight = load_number(builder, offset(builder, weights, at, 4))
            weight = splat(builder, weight, lanes)
            for number, total in zip(numbers, row, strict=True):
                _add_to(builder, total, weight, number)
    for row, totals in zip(places, sums, strict=True):
        for place, total in zip(row, totals, strict=True):
            store(builder, builder.load(total), place)


def _sum_from(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """Allocates a sum, which LLVM keeps in a register."""
    place = cgutils.alloca_once(builder, vector(numbers.type.count))
    builder.store(numbers, place)
    return place


def _add_to(
    builder: ir.IRBuilder, place: ir.Value, left: ir.Value, right: ir.Value
) -> None:
    total = multiply_add(builder, left, right, builder.load(place))
    builder.store(total, place)


score_tile: Any = intrinsic(prefer_literal=True)(_score_tile)
value_tile: Any = intrinsic(prefer_literal=True)(_value_tile)
