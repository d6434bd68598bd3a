"""What sinks and slopes add to prefill attention, for the 16 queries of a tile.

A sink is one more score of each query, without a value: the state begins with it
instead of nothing. A slope leans a query's scores by the distance of the tokens.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import ROWS
from hookline_kernels.cpu.vectors import (
    FLOAT,
    INT32,
    INT64,
    LOG2_E,
    Emit,
    constant,
    load,
    load_number,
    multiply_add,
    offset,
    splat,
    store,
    vector,
)

_SCORE_BYTES = ROWS * 4
"""Bytes of a token's scores: 16 queries."""


def _seed_state(
    _: object, state: Any, sinks: Any, row: Any, group: Any
) -> tuple[Signature, Emit]:
    """Makes the sinks the maximum scores of a cleared state, each with weight 1.

    Args:
        _: Of numba.
        state: Its address; scores are in powers of 2.
        sinks: Address of the sinks of the group's heads, float32.
        row: The tile's first row: heads of a group alternate.
        group: Heads in a group, a literal.
    """
    signature = types.void(*[types.intp for _ in (state, sinks, row)], group)
    heads = group.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        own = _by_row(builder, args[1], args[2], heads)
        store(builder, builder.fmul(own, constant(LOG2_E, ROWS)), args[0])
        weights = builder.add(args[0], INT64(_SCORE_BYTES))
        store(builder, constant(1.0, ROWS), weights)
        return context.get_dummy_value()

    return signature, emit


def _lean_scores(  # noqa: PLR0917 - numba passes by position
    _: object,
    scores: Any,
    start: Any,
    end: Any,
    row: Any,
    shift: Any,
    slopes: Any,
    factor: Any,  # noqa: ARG001 - float32 whatever it is
    group: Any,
) -> tuple[Signature, Emit]:
    """Adds slope · (token - own token) to the scores of tokens `start` … `end` - 1.

    Query q belongs to token (row + q) ÷ group + `shift`. Scores are still short of
    `factor`, which also turns them into powers of 2; slopes are the addresses of the
    group's.
    """
    given = (scores, start, end, row, shift, slopes)
    signature = types.void(*[types.intp for _ in given], types.float32, group)
    heads = group.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, first, last, query, before, numbers, scale = args[:7]
        slope = _by_row(builder, numbers, query, heads)
        slope = builder.fmul(slope, constant(LOG2_E, ROWS))
        slope = builder.fdiv(slope, splat(builder, scale, ROWS))
        lanes = ir.Constant(vector(ROWS, INT64), list(range(ROWS)))
        own = builder.add(splat(builder, query, ROWS), lanes)
        own = builder.udiv(own, constant(heads, ROWS, INT64))
        own = builder.add(own, splat(builder, before, ROWS))
        own = builder.sitofp(own, vector(ROWS))
        with cgutils.for_range_slice(builder, first, last, INT64(1)) as (index, _):
            token = splat(builder, builder.sitofp(index, FLOAT), ROWS)
            distance = builder.fsub(token, own)
            at = offset(builder, source, index, _SCORE_BYTES)
            found = multiply_add(builder, slope, distance, load(builder, at, ROWS))
            store(builder, found, at)
        return context.get_dummy_value()

    return signature, emit


def _by_row(
    builder: ir.IRBuilder, numbers: ir.Value, first: ir.Value, heads: int
) -> ir.Value:
    """Returns the numbers of the heads that 16 rows belong to."""
    found: ir.Value = constant(0.0, ROWS)
    for lane in range(ROWS):
        head = builder.urem(builder.add(first, INT64(lane)), INT64(heads))
        number = load_number(builder, offset(builder, numbers, head, 4))
        found = builder.insert_element(found, number, INT32(lane))
    return found


seed_state: Any = intrinsic(prefer_literal=True)(_seed_state)
lean_scores: Any = intrinsic(prefer_literal=True)(_lean_scores)
