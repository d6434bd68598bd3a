"""Lays out keys and values for the products of prefill attention.

Panels are words of 4 bytes: float32 numbers, or pairs of bfloat16 numbers that a dot
product adds up, neighbouring dimensions of a key or neighbouring tokens of a value. As
the cache keeps keys in columns and values in rows, vectors need neither transposed.
Tiles have rows of 16 words, which are transposed so that a product's columns are
queries.

All addresses are integers; numbers that shape the code are literals.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import DEPTH, ROWS
from hookline_kernels.cpu.bfloat_pairs import interleaved, store_words
from hookline_kernels.cpu.prefill_call import PIECE
from hookline_kernels.cpu.transposing import TILE_BYTES, store_rows, transposed
from hookline_kernels.cpu.vectors import (
    INT16,
    INT64,
    Emit,
    constant,
    load,
    offset,
    part,
    store,
    vector,
)


def _lay_keys(  # noqa: PLR0917 - numba passes by position
    _: object,
    keys: Any,
    panel: Any,
    dim: Any,
    block: Any,
    size: Any,
    panel_size: Any,
    is_tiled: Any,
) -> tuple[Signature, Emit]:
    """Lays out 16 tokens of a head's page of keys, [dim, block].

    Vectors get columns of [words, PIECE], tiles [words ÷ 16, 16 tokens, 16 words].
    size, panel_size: Bytes of a number in the page and in the panel; if that is 2, the
    page's is, too.
    """
    literals = (dim, block, size, panel_size, is_tiled)
    signature = types.void(keys, panel, *literals)
    width, tokens, element, number, tiled = (each.literal_value for each in literals)
    row_bytes, words = tokens * element, width * number // 4

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target = args[:2]

        def word(index: ir.Value) -> ir.Value:
            """Returns a word of each of 16 tokens."""
            if number == 4:
                own = offset(builder, source, index, row_bytes)
                return load(builder, own, ROWS, element)
            own = offset(builder, source, index, 2 * row_bytes)
            other = builder.add(own, INT64(row_bytes))
            sides = (_load_halves(builder, each) for each in (own, other))
            return interleaved(builder, *sides)

        steps = INT64(words // ROWS if tiled else words)
        with cgutils.for_range(builder, steps, intp=INT64) as loop:
            if tiled:
                first = builder.mul(loop.index, INT64(ROWS))
                found = [word(builder.add(first, INT64(at))) for at in range(ROWS)]
                place = offset(builder, target, loop.index, TILE_BYTES)
                store_rows(builder, transposed(builder, found), place)
            else:
                place = offset(builder, target, loop.index, 4 * PIECE)
                store_words(builder, word(loop.index), place)
        return context.get_dummy_value()

    return signature, emit


def _lay_values(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    panel: Any,
    tokens: Any,  # noqa: ARG001 - a whole number whatever it is
    dim: Any,
    size: Any,
    panel_size: Any,
    is_tiled: Any,
) -> tuple[Signature, Emit]:
    """Lays out 16 tokens of a head's page of values, [16, dim].

    Vectors get rows of [PIECE, dim] numbers or [PIECE ÷ 2, dim] pairs, tiles half of
    [dim, 16 pairs]. Pairs of tokens from `tokens` on become 0: unwritten memory may
    hold not-a-numbers. The sizes are those of `lay_keys`.
    """
    literals = (dim, size, panel_size, is_tiled)
    signature = types.void(values, panel, types.intp, *literals)
    width, element, number, tiled = (each.literal_value for each in literals)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        if number == 4:
            _copy_floats(builder, args[0], args[1], width, element)
        elif tiled:
            _lay_value_tiles(builder, args, width)
        else:
            _lay_value_pairs(builder, args, width)
        return context.get_dummy_value()

    return signature, emit


def _copy_floats(
    builder: ir.IRBuilder, source: ir.Value, target: ir.Value, dim: int, size: int
) -> None:
    """Copies 16 · dim numbers of `size` bytes as float32."""
    with cgutils.for_range(builder, INT64(dim), intp=INT64) as loop:
        own = offset(builder, source, loop.index, ROWS * size)
        place = offset(builder, target, loop.index, 4 * ROWS)
        store(builder, load(builder, own, ROWS, size), place)


def _lay_value_pairs(builder: ir.IRBuilder, args: list[ir.Value], dim: int) -> None:
    """Writes pairs of tokens, [8, dim]."""
    source, target, count = args[:3]
    with cgutils.for_range(builder, INT64(ROWS // 2), intp=INT64) as loop:
        to = offset(builder, target, loop.index, 4 * dim)
        for at in range(0, dim, ROWS):
            own = builder.add(source, INT64(2 * at))
            both = _token_pair(builder, own, loop.index, count, dim)
            store_words(builder, both, builder.add(to, INT64(4 * at)))


def _lay_value_tiles(builder: ir.IRBuilder, args: list[ir.Value], dim: int) -> None:
    """Writes half of the rows of two tiles for each 32 dimensions."""
    source, target, count = args[:3]
    half = ROWS // 2
    with cgutils.for_range(builder, INT64(dim // DEPTH), intp=INT64) as loop:
        first = offset(builder, source, loop.index, 2 * DEPTH)
        pairs = [
            _token_pair(
                builder, builder.add(first, INT64(side)), INT64(pair), count, dim
            )
            for side in (0, 2 * ROWS)  # 16 numbers of each token, then the next 16
            for pair in range(half)
        ]
        place = offset(builder, target, loop.index, 2 * TILE_BYTES)
        for row, words in enumerate(transposed(builder, pairs)):
            for side in range(2):
                own = part(builder, words, side * half, half)
                at = builder.add(place, INT64(side * TILE_BYTES + 4 * ROWS * row))
                store_words(builder, own, at)


def _token_pair(
    builder: ir.IRBuilder,
    source: ir.Value,
    pair: ir.Value,
    count: ir.Value,
    dim: int,
) -> ir.Value:
    """Returns 16 numbers of two tokens in pairs; 0 for tokens from `count` on."""
    nothing, halves = constant(0, ROWS, INT16), []
    for side in range(2):
        token = builder.add(builder.mul(pair, INT64(2)), INT64(side))
        found = _load_halves(builder, offset(builder, source, token, 2 * dim))
        kept = builder.icmp_signed("<", token, count)
        halves.append(builder.select(kept, found, nothing))
    return interleaved(builder, *halves)


def _load_halves(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Loads 16 numbers of 2 bytes, unconverted."""
    pointer = builder.inttoptr(address, vector(ROWS, INT16).as_pointer())
    return builder.load(pointer, align=2)


lay_keys: Any = intrinsic(prefer_literal=True)(_lay_keys)
lay_values: Any = intrinsic(prefer_literal=True)(_lay_values)
