"""The products of prefill attention on vectors: 16 queries, a piece of tokens.

`prefill_tiles` has the same products on the matrix unit. A product adds, to rows
of sums in registers, numbers of a panel times vectors of queries or weights: as many
rows at once as registers hold, so that each vector is loaded once for all of them.
Panels are float32 or, where the CPU has fast dot products, pairs of bfloat16, which
are as wide.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.bfloat_pairs import add_dots
from hookline_kernels.cpu.prefill_call import GRAIN, PIECE
from hookline_kernels.cpu.prefill_softmax import SCORE_BYTES
from hookline_kernels.cpu.vectors import (
    INT32,
    INT64,
    LANES,
    Emit,
    constant,
    load,
    multiply_add,
    offset,
    splat,
    store,
    vector,
)

_MOST_SUMS = 24 if LANES == ROWS else 6
"""Rows of sums at once: 16 numbers are one register of 32, two of 16, or four of 32."""


def _score_vectors(  # noqa: PLR0917 - numba passes by position
    _: object,
    queries: Any,
    keys: Any,
    start: Any,
    end: Any,
    scores: Any,
    dim: Any,
    pairs: Any,
) -> tuple[Signature, Emit]:
    """scores[t, q] = Σ keys[d, t] · queries[d, q], t from `start` to `end` - 1.

    Both are multiples of `GRAIN`. queries: [words, 16], from `lay_queries`. keys:
    [words, PIECE], from `lay_keys`. pairs: 1 for pairs of bfloat16, 0 for float32.
    """
    given = (queries, keys, start, end, scores)
    signature = types.void(*[types.intp for _ in given], dim, pairs)
    is_paired = bool(pairs.literal_value)
    count = dim.literal_value // (1 + is_paired)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, first, last, target = args[:5]
        each = INT64(_MOST_SUMS)
        with cgutils.for_range_slice(builder, first, last, each) as (token, _unused):
            sums = [constant(0.0, ROWS)] * _MOST_SUMS
            own = offset(builder, panel, token, 4)
            found = _products(
                builder, (own, 4 * PIECE), source, INT64(count), sums, is_paired
            )
            _store_all(builder, found, offset(builder, target, token, SCORE_BYTES))
        return context.get_dummy_value()

    return signature, emit


def _weigh_vectors(  # noqa: PLR0917 - numba passes by position
    _: object,
    weights: Any,
    values: Any,
    start: Any,
    end: Any,
    sums: Any,
    dim: Any,
    pairs: Any,
) -> tuple[Signature, Emit]:
    """sums[d, q] += Σ values[t, d] · weights[t, q], t from `start` to `end` - 1.

    `start` is even. weights: from `update_softmax`, [PIECE, 16] numbers or half as many
    pairs. values: from `lay_values`, likewise [PIECE, dim].
    """
    given = (weights, values, start, end, sums)
    signature = types.void(*[types.intp for _ in given], dim, pairs)
    width, is_paired = dim.literal_value, bool(pairs.literal_value)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, first, last, target = args[:5]
        if is_paired:  # counts pairs from here on
            first = builder.lshr(first, INT64(1))
            last = builder.lshr(builder.add(last, INT64(1)), INT64(1))
        source = offset(builder, source, first, SCORE_BYTES)
        panel = offset(builder, panel, first, 4 * width)
        count = builder.sub(last, first)
        for rows in _even_slices(width, _MOST_SUMS):
            place = builder.add(target, INT64(rows.start * SCORE_BYTES))
            before = [
                load(builder, builder.add(place, INT64(at * SCORE_BYTES)), ROWS)
                for at in range(len(rows))
            ]
            own = builder.add(panel, INT64(4 * rows.start))
            found = _products(
                builder, (own, 4 * width), source, count, before, is_paired
            )
            _store_all(builder, found, place)
        return context.get_dummy_value()

    return signature, emit


def _products(  # noqa: PLR0917 - two operands, what to add to, and how
    builder: ir.IRBuilder,
    panel: tuple[ir.Value, int],
    vectors: ir.Value,
    count: ir.Value,
    sums: Sequence[ir.Value],
    is_paired: bool,
) -> list[ir.Value]:
    """Returns sums[i] + Σ panel[k, i] · vectors[k], k from 0 to `count` - 1.

    The panel is an address and the bytes from row to row.
    """
    address, stride = panel
    kind = INT32 if is_paired else ir.FloatType()
    places = [cgutils.alloca_once_value(builder, each) for each in sums]
    for place, each in zip(places, sums, strict=True):
        builder.store(each, place)  # once per call, not once per function
    with cgutils.for_range(builder, count, intp=INT64) as loop:
        own = offset(builder, address, loop.index, stride)
        at = offset(builder, vectors, loop.index, SCORE_BYTES)
        pointer = builder.inttoptr(at, vector(ROWS, kind).as_pointer())
        numbers = builder.load(pointer, align=4)
        for index, place in enumerate(places):
            at = builder.add(own, INT64(4 * index))
            one = builder.load(builder.inttoptr(at, kind.as_pointer()), align=4)
            add = add_dots if is_paired else multiply_add
            total = add(
                builder, splat(builder, one, ROWS), numbers, builder.load(place)
            )
            builder.store(total, place)
    return [builder.load(place) for place in places]


def _even_slices(total: int, most: int) -> list[range]:
    """Cuts 0 … total - 1 into ranges of nearly equal length, at most `most`."""
    count = -(-total // most)
    edges = [total * each // count for each in range(count + 1)]
    return [range(*pair) for pair in pairwise(edges)]


def _store_all(
    builder: ir.IRBuilder, rows: Sequence[ir.Value], address: ir.Value
) -> None:
    for index, row in enumerate(rows):
        store(builder, row, builder.add(address, INT64(index * SCORE_BYTES)))


assert GRAIN % _MOST_SUMS == 0
score_vectors: Any = intrinsic(prefer_literal=True)(_score_vectors)
weigh_vectors: Any = intrinsic(prefer_literal=True)(_weigh_vectors)
