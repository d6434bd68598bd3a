"""The products of prefill attention on tiles (AMX): 16 queries, a piece of tokens.

`prefill_vectors` has the same products on vectors. All addresses are integers; numbers
that shape the code are literals.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
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
from hookline_kernels.cpu.prefill_softmax import SCORE_BYTES, counting
from hookline_kernels.cpu.transposing import TILE_BYTES
from hookline_kernels.cpu.vectors import INT64, Emit, offset


def _score_tiles(  # noqa: PLR0917 - numba passes by position
    _: object,
    queries: Any,
    keys: Any,
    start: Any,
    end: Any,
    scores: Any,
    dim: Any,
    pairs: Any,
) -> tuple[Signature, Emit]:
    """scores[t, q] = Σ keys[t, d] · queries[d, q], t from `start` to `end` - 1.

    Both are multiples of 32. queries: from `lay_queries`. keys: from `lay_keys`, 16
    tokens after the other. pairs: 1, as tiles multiply pairs of bfloat16.
    """
    given = (queries, keys, start, end, scores)
    signature = types.void(*[types.intp for _ in given], dim, pairs)
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
        with counting(builder, first, last, DEPTH) as index:
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
                at = offset(builder, target, index, SCORE_BYTES)
                at = builder.add(at, INT64(half * ROWS * SCORE_BYTES))
                store_tile(builder, half, at, 64)
        return context.get_dummy_value()

    return signature, emit


def _weigh_tiles(  # noqa: PLR0917 - numba passes by position
    _: object,
    weights: Any,
    values: Any,
    start: Any,
    end: Any,
    sums: Any,
    dim: Any,
    pairs: Any,
) -> tuple[Signature, Emit]:
    """sums[d, q] += Σ values[d, t] · weights[t, q], t from `start` to `end` - 1.

    `start` is a multiple of 32, and `end` is rounded up to one. values: from
    `lay_values`, 32 tokens after the other. weights: from `update_softmax`. pairs: 1,
    as in `score_tiles`.
    """
    given = (weights, values, start, end, sums)
    signature = types.void(*[types.intp for _ in given], dim, pairs)
    width = dim.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, panel, first, last, target = args[:5]
        parts = list(range(width // ROWS))
        for at in range(0, len(parts), 4):
            group = parts[at : at + 4]
            places = [
                builder.add(target, INT64(part * ROWS * SCORE_BYTES)) for part in group
            ]
            for index, place in enumerate(places):
                load_tile(builder, index, place, 64)
            with counting(builder, first, last, DEPTH) as index:
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


score_tiles: Any = intrinsic(prefer_literal=True)(_score_tiles)
weigh_tiles: Any = intrinsic(prefer_literal=True)(_weigh_tiles)
