"""Lays out keys, values and queries for products of vectors, and writes outputs.

A panel has float32 numbers, or pairs of bfloat16 numbers. As the cache keeps keys in
columns and values in rows, neither is transposed.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.prefill_call import PIECE
from hookline_kernels.cpu.prefill_panels import (
    load_halves,
    pair_up,
    row_places,
    transposed,
)
from hookline_kernels.cpu.vectors import (
    INT16,
    INT64,
    Emit,
    constant,
    load,
    offset,
    store,
)


def _lay_float_keys(
    _: object, keys: Any, panel: Any, dim: Any, block: Any, size: Any
) -> tuple[Signature, Emit]:
    """Copies 16 tokens of a head's page, [dim, block], to columns of [dim, PIECE]."""
    signature = types.void(keys, panel, dim, block, size)
    width, element = dim.literal_value, size.literal_value
    row_bytes = block.literal_value * element

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        with cgutils.for_range(builder, INT64(width), intp=INT64) as loop:
            own = offset(builder, args[0], loop.index, row_bytes)
            numbers = load(builder, own, ROWS, element)
            store(builder, numbers, offset(builder, args[1], loop.index, 4 * PIECE))
        return context.get_dummy_value()

    return signature, emit


def _lay_float_values(
    _: object, values: Any, panel: Any, dim: Any, size: Any
) -> tuple[Signature, Emit]:
    """Copies 16 tokens of a head's page, [16, dim], to rows of [PIECE, dim]."""
    signature = types.void(values, panel, dim, size)
    width, element = dim.literal_value, size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        with cgutils.for_range(builder, INT64(width), intp=INT64) as loop:
            own = offset(builder, args[0], loop.index, ROWS * element)
            numbers = load(builder, own, ROWS, element)
            store(builder, numbers, offset(builder, args[1], loop.index, 4 * ROWS))
        return context.get_dummy_value()

    return signature, emit


def _lay_pair_keys(
    _: object, keys: Any, panel: Any, dim: Any, block: Any
) -> tuple[Signature, Emit]:
    """Copies 16 tokens of a head's page, [dim, block], to [dim ÷ 2, PIECE] pairs."""
    signature = types.void(keys, panel, dim, block)
    width, row_bytes = dim.literal_value, 2 * block.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        with cgutils.for_range(builder, INT64(width // 2), intp=INT64) as loop:
            own = offset(builder, args[0], loop.index, 2 * row_bytes)
            other = builder.add(own, INT64(row_bytes))
            both = pair_up(
                builder, load_halves(builder, own), load_halves(builder, other)
            )
            _store_words(builder, both, offset(builder, args[1], loop.index, 4 * PIECE))
        return context.get_dummy_value()

    return signature, emit


def _lay_pair_values(
    _: object,
    values: Any,
    panel: Any,
    tokens: Any,  # noqa: ARG001 - a whole number whatever it is
    dim: Any,
) -> tuple[Signature, Emit]:
    """Copies 16 tokens of a head's page, [16, dim], to [PIECE ÷ 2, dim] pairs.

    Tokens from `tokens` on become 0: unwritten memory may hold not-a-numbers.
    """
    signature = types.void(values, panel, types.intp, dim)
    width = dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, count = args[:3]
        nothing = constant(0, ROWS, INT16)
        with cgutils.for_range(builder, INT64(ROWS // 2), intp=INT64) as loop:
            for at in range(0, width, ROWS):
                halves = []
                for side in range(2):
                    token = builder.add(builder.mul(loop.index, INT64(2)), INT64(side))
                    place = builder.add(
                        offset(builder, source, token, 2 * width), INT64(2 * at)
                    )
                    kept = builder.icmp_signed("<", token, count)
                    found = load_halves(builder, place)
                    halves.append(builder.select(kept, found, nothing))
                to = offset(builder, target, loop.index, 4 * width)
                _store_words(
                    builder, pair_up(builder, *halves), builder.add(to, INT64(4 * at))
                )
        return context.get_dummy_value()

    return signature, emit


def _lay_float_queries(  # noqa: PLR0917 - numba passes by position
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
) -> tuple[Signature, Emit]:
    """Lays 16 rows from `first` on out as [dim, 16], as `lay_queries` does pairs."""
    integers = [queries, token_bytes, head_bytes, first, rows, panel]
    signature = types.void(*[types.intp for _ in integers], group, dim, size)
    heads, width = group.literal_value, dim.literal_value
    element = size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, by_token, by_head, start, count, target = args[:6]
        places = row_places(builder, source, (by_token, by_head), start, count, heads)
        with cgutils.for_range(builder, INT64(width // ROWS), intp=INT64) as loop:
            at = builder.mul(loop.index, INT64(ROWS * element))
            numbers = [
                load(builder, builder.add(place, at), ROWS, element) for place in places
            ]
            to = offset(builder, target, loop.index, 4 * ROWS * ROWS)
            for row, found in enumerate(transposed(builder, numbers)):
                store(builder, found, builder.add(to, INT64(4 * ROWS * row)))
        return context.get_dummy_value()

    return signature, emit


def _write_float_rows(  # noqa: PLR0917 - numba passes by position
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
    """Divides sums, float32 [dim, 16], by their totals into 16 output rows."""
    integers = [sums, totals, output, token_bytes, first, rows]
    signature = types.void(*[types.intp for _ in integers], group, dim, size)
    heads, width = group.literal_value, dim.literal_value
    element = size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, whole, target, by_token, start, count = args[:6]
        share = builder.fdiv(constant(1.0, ROWS), load(builder, whole, ROWS))
        strides = by_token, INT64(element * width)
        places = row_places(builder, target, strides, start, count, heads)
        with cgutils.for_range(builder, INT64(width // ROWS), intp=INT64) as loop:
            own = offset(builder, source, loop.index, 4 * ROWS * ROWS)
            scaled = []
            for row in range(ROWS):
                place = builder.add(own, INT64(4 * ROWS * row))
                scaled.append(builder.fmul(load(builder, place, ROWS), share))
            # backwards: the true row overwrites its repetitions
            turned = list(zip(places, transposed(builder, scaled), strict=True))
            at = builder.mul(loop.index, INT64(ROWS * element))
            for place, numbers in reversed(turned):
                store(builder, numbers, builder.add(place, at), element)
        return context.get_dummy_value()

    return signature, emit


def _store_words(builder: ir.IRBuilder, words: ir.Value, address: ir.Value) -> None:
    builder.store(words, builder.inttoptr(address, words.type.as_pointer()), align=4)


lay_float_keys: Any = intrinsic(prefer_literal=True)(_lay_float_keys)
lay_float_values: Any = intrinsic(prefer_literal=True)(_lay_float_values)
lay_pair_keys: Any = intrinsic(prefer_literal=True)(_lay_pair_keys)
lay_pair_values: Any = intrinsic(prefer_literal=True)(_lay_pair_values)
lay_float_queries: Any = intrinsic(prefer_literal=True)(_lay_float_queries)
write_float_rows: Any = intrinsic(prefer_literal=True)(_write_float_rows)
